"""How the families spell the same facts. Each table is in order of precedence."""

from __future__ import annotations

from collector.dialects.step import Kind

KINDS: dict[str, Kind] = {
    "llm": "model",
    "generation": "model",
    "chat": "model",
    "chat_model": "model",
    "model": "model",
    "completion": "model",
    "text_completion": "model",
    "generate_content": "model",
    "responses": "model",
    "message": "model",
    "tool": "tool",
    "execute_tool": "tool",
    "function": "tool",
    "retriever": "retriever",
    "retrieval": "retriever",
    "vector_db_retrieve": "retriever",
    "reranker": "retriever",
    "rerank": "retriever",
    "embedding": "embedding",
    "embeddings": "embedding",
    "embedder": "embedding",
    "agent": "agent",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "workflow": "chain",
    "chain": "chain",
    "flow": "chain",
    "rag": "retriever",
    "task": "chain",
    "span": "chain",
    "step": "chain",
    "default": "chain",
    "prompt": "other",
    "parser": "other",
    "event": "other",
    "guardrail": "other",
    "evaluator": "other",
    "memory": "other",
    "create_agent": "other",
    "create_thread": "other",
    "image_generation": "other",
    "moderation": "other",
    "count_tokens": "other",
}
KIND_KEYS = (
    "openinference.span.kind",
    "langfuse.observation.type",
    "mlflow.spanType",
    "langsmith.span.kind",
    "traceloop.span.kind",
    "lmnr.span.type",
    "langwatch.span.type",
    "gen_ai.operation.name",
    "llm.request.type",
    "spring.ai.kind",
    "genkit:metadata:subtype",
)
CONVERSATION = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.chat_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "ai.telemetry.metadata.conversationId",
    "ai.telemetry.metadata.threadId",
    "ai.telemetry.metadata.chatId",
    "ai.settings.context.sessionId",
    "ai.settings.context.conversationId",
    "ai.settings.context.threadId",
    "ai.settings.context.chatId",
    "langfuse.trace.metadata.session_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.conversation_id",
    "gcp.vertex.agent.session_id",
    "lmnr.association.properties.session_id",
    "langwatch.thread.id",
    "mlflow.trace.session",
    "metadata.mlflow.trace.session",
    "genkit:sessionId",
    "genkit:metadata:agent:sessionId",
    "metadata.session_id",
    "thread.id",
    "thread_id",
    "session_id",
    "conversation_id",
    "conversation.id",
)
USER = (
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    "gen_ai.user.id",
    "traceloop.association.properties.user_id",
    "ai.telemetry.metadata.userId",
    "ai.telemetry.metadata.user_id",
    "ai.settings.context.userId",
    "ai.settings.context.user_id",
    "langfuse.trace.metadata.user_id",
    "langsmith.metadata.user_id",
    "lmnr.association.properties.user_id",
    "langwatch.user.id",
    "mlflow.trace.user",
    "metadata.user_id",
    "user_id",
)
METADATA = (
    "metadata",
    "langwatch.metadata",
    "langfuse.observation.metadata",
    "llm.metadata",
)
METADATA_CONVERSATION = (
    "session_id",
    "thread_id",
    "conversation_id",
    "sessionId",
    "threadId",
)
METADATA_USER = (
    "user_id",
    "userId",
    "langfuse_user_id",
)
AGENT = (
    "gen_ai.agent.name",
    "agent.name",
    "agent_name",
    "lk.agent_name",
    "lk.agent_label",
    "ai.telemetry.functionId",
)
PROMPT = (
    "gen_ai.prompt.name",
    "langfuse.observation.prompt.name",
    "traceloop.prompt.key",
    "llm.prompt_template.name",
    "lmnr.prompt.name",
)
PROMPT_VERSION = (
    "gen_ai.prompt.version",
    "langfuse.observation.prompt.version",
    "traceloop.prompt.version",
    "llm.prompt_template.version",
)
MODEL = (
    "gen_ai.request.model",
    "ai.model.id",
    "llm.model_name",
    "langfuse.observation.model.name",
    "mlflow.llm.model",
    "model_name",
    "llm.request.model",
)
RESPONSE_MODEL = (
    "gen_ai.response.model",
    "ai.response.model",
    "llm.openai.model",
)
PROVIDER = (
    "gen_ai.provider.name",
    "llm.provider",
    "llm.system",
    "gen_ai.system",
    "ai.model.provider",
    "mlflow.llm.provider",
)
FRAMEWORKS = frozenset(
    {
        "_other",
        "autogen",
        "crewai",
        "dspy",
        "haystack",
        "langchain",
        "langgraph",
        "llama_index",
        "llamaindex",
        "microsoft.agent_framework",
        "openai_agents",
        "pydantic-ai",
        "semantic_kernel",
        "smolagents",
        "spring_ai",
        "strands",
        "strands-agents",
    }
)
"""Names that stand where a provider's should."""
SYSTEM = ("system_prompt", "langfuse.observation.metadata.instructions")
INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "llm.usage.prompt_tokens",
    "gen_ai.aggregated_usage.input_tokens",
)
OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "llm.usage.completion_tokens",
    "gen_ai.aggregated_usage.output_tokens",
)
CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_tokens",
    "gen_ai.usage.input_cached_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
    "gen_ai.usage.details.cached_tokens",
    "gen_ai.usage.details.cache_read_tokens",
)
COST = (
    "gen_ai.cost.total_cost",
    "operation.cost",
    "llm.cost.total",
    "gen_ai.usage.cost",
    "gen_ai.usage.total_cost",
    "lmnr.span.cost",
    "openlit.cost",
)
USAGE_DUMPS = (
    "langfuse.observation.usage_details",
    "mlflow.chat.tokenUsage",
    "llm.openai.usage",
    "langsmith.metadata.usage_metadata",
    "metadata.usage_object",
    "lk.llm_metrics",
    "langwatch.metrics",
)
DUMPED_INPUT = (
    "input_tokens",
    "prompt_tokens",
    "inputTokens",
    "promptTokens",
    "prompt_token_count",
    "promptTokenCount",
    "input",
)
DUMPED_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "completionTokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "output",
)
DUMPED_CACHED = (
    "cache_read_input_tokens",
    "cached_tokens",
    "cache_read",
    "prompt_cached_tokens",
    "cached_content_token_count",
    "cachedInputTokens",
    "input_cached_tokens",
)
DUMPED_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "input_token_details",
)
FINISH = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "llm.finish_reason",
    "ai.response.finishReason",
    "anthropic.message.stop_reason",
    "gen_ai.completion.0.finish_reason",
)
RESPONSE_ID = (
    "gen_ai.response.id",
    "ai.response.id",
    "llm.openai.id",
    "llm.response.id",
)
SECONDS = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.server.time_to_first_token",
    "gen_ai.response.time_to_first_token",
    "lk.response.ttft",
)
MILLISECONDS = (
    "ai.response.msToFirstChunk",
    "ai.stream.msToFirstChunk",
)
FIRST_EVENTS = (
    "ai.stream.firstChunk",
    "mlflow.chunk.item.0",
    "First Token Stream Event",
    "gen_ai.content.completion.chunk",
    "llm.content.completion.chunk",
    "new_token",
)
ERROR_MESSAGES = (
    "exception.message",
    "error.message",
    "langfuse.observation.status_message",
)
ERROR_TYPES = (
    "exception.type",
    "error.type",
)
