"""Layouts of which no capture is at hand, written by hand after what their libraries document."""

import itertools
import json

import pytest

from assay.records import Usage
from collector import dialects
from collector.spans import Event, Log, Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
Q = "Where is my order ORD-1042?"
A = "It has shipped and arrives on 14 March."
ARGS = {"order_id": "ORD-1042"}
RESULT = {"status": "shipped", "eta": "14 March"}
SYSTEM = "Answer briefly."
TICKS = itertools.count(1)


def span(name="span", parent="", **more):
    """A span that starts after the one before; keyword `attributes` and any field of Span."""
    tick = next(TICKS)
    more.setdefault("start", tick * 1_000_000)
    more.setdefault("end", more["start"] + 500_000)
    span_id = more.pop("span_id", f"{tick:016x}")
    return Span(trace_id=TRACE, span_id=span_id, parent_id=parent, name=name, **more)


def log(span_id, name, body=None, **attributes):
    return Log(
        trace_id=TRACE,
        span_id=span_id,
        time=next(TICKS),
        event_name=name,
        body=body,
        attributes=attributes,
    )


def one(spans, logs=()):
    reading = dialects.read(spans, logs)
    assert len(reading.turns) == 1, reading
    return reading.turns[0]


def exchange(turn, query=Q, response=A):
    assert (turn.query, turn.response) == (query, response)


def called(turn, arguments=ARGS, result=RESULT):
    (call,) = turn.tool_calls
    assert (call.name, call.arguments, call.result) == ("get_order_status", arguments, result)


OPENAI_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_order_status", "arguments": json.dumps(ARGS)},
}


def test_semantic_kernel_speaks_in_log_bodies():
    """Messages are JSON text in the body, ordered by an index; the agent's messages are `[]`."""
    agent = span(
        "invoke_agent helpdesk",
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "helpdesk",
            "gen_ai.input.messages": "[]",
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": A}]),
        },
    )
    chat = span(
        "chat.completions gpt-4o-mini",
        parent=agent.span_id,
        attributes={
            "gen_ai.operation.name": "chat.completions",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.finish_reason": "FinishReason.STOP",
            "gen_ai.usage.input_tokens": 41,
        },
    )
    records = [
        log(
            chat.span_id,
            "gen_ai.user.message",
            json.dumps({"role": "user", "content": Q}),
            CHAT_MESSAGE_INDEX=1,
        ),
        log(
            chat.span_id,
            "gen_ai.system.message",
            json.dumps({"role": "system", "content": SYSTEM}),
            CHAT_MESSAGE_INDEX=0,
        ),
        log(chat.span_id, "", "an ordinary line"),
        log(
            chat.span_id,
            "gen_ai.choice",
            json.dumps(
                {
                    "message": {"role": "assistant", "content": A},
                    "finish_reason": "FinishReason.STOP",
                    "index": 0,
                }
            ),
        ),
    ]
    turn = one([agent, chat], records)
    exchange(turn)
    assert (turn.system, turn.finish_reason, turn.operation) == (SYSTEM, "stop", "helpdesk")
    assert turn.usage.input_tokens == 41


def test_adk_1_keeps_gemini_shapes_in_its_own_keys():
    """Requests, responses, tool arguments and results under gcp.vertex.agent.*."""
    root = span("invocation", scope="gcp.vertex.agent")
    run = span("agent_run [helpdesk]", parent=root.span_id, scope="gcp.vertex.agent")
    asked = {"parts": [{"text": Q}], "role": "user"}
    call = {
        "parts": [{"function_call": {"name": "get_order_status", "args": ARGS}}],
        "role": "model",
    }
    back = {
        "parts": [{"function_response": {"name": "get_order_status", "response": RESULT}}],
        "role": "user",
    }

    def model(contents, content):
        return span(
            "call_llm",
            parent=run.span_id,
            scope="gcp.vertex.agent",
            attributes={
                "gen_ai.system": "gcp.vertex.agent",
                "gen_ai.request.model": "gemini-2.0-flash",
                "gcp.vertex.agent.session_id": "s-1",
                "gcp.vertex.agent.llm_request": json.dumps(
                    {
                        "model": "gemini-2.0-flash",
                        "config": {
                            "system_instruction": SYSTEM,
                            "tools": [
                                {
                                    "function_declarations": [
                                        {"name": "get_order_status", "description": "d"}
                                    ]
                                }
                            ],
                        },
                        "contents": contents,
                    }
                ),
                "gcp.vertex.agent.llm_response": json.dumps(
                    {
                        "content": content,
                        "finish_reason": "STOP",
                        "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 5},
                    }
                ),
            },
        )

    first = model([asked], call)
    tool = span(
        "execute_tool get_order_status",
        parent=run.span_id,
        scope="gcp.vertex.agent",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_order_status",
            "gcp.vertex.agent.tool_call_args": json.dumps(ARGS),
            "gcp.vertex.agent.tool_response": json.dumps(RESULT),
            "gcp.vertex.agent.llm_request": "{}",
            "gcp.vertex.agent.llm_response": "{}",
        },
    )
    second = model([asked, call, back], {"parts": [{"text": A}], "role": "model"})
    turn = one([root, run, first, tool, second])
    exchange(turn)
    called(turn)
    assert (turn.system, turn.conversation_id, turn.finish_reason) == (SYSTEM, "s-1", "stop")
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (20, 10)
    assert turn.tool_definitions[0].name == "get_order_status"


def test_pydantic_ai_0_8_lists_events_in_an_attribute():
    """`events` on the model span, `all_messages_events` on the root, `tool_response` on tools."""
    listed = [
        {"content": SYSTEM, "role": "system", "event.name": "gen_ai.system.message"},
        {"content": Q, "role": "user", "event.name": "gen_ai.user.message"},
        {
            "role": "assistant",
            "tool_calls": [OPENAI_CALL],
            "event.name": "gen_ai.assistant.message",
        },
        {
            "content": json.dumps(RESULT),
            "role": "tool",
            "id": "call_1",
            "name": "get_order_status",
            "event.name": "gen_ai.tool.message",
        },
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": A},
        "event.name": "gen_ai.choice",
    }
    root = span(
        "agent run",
        attributes={
            "model_name": "gpt-4o-mini",
            "agent_name": "helpdesk",
            "final_result": A,
            "all_messages_events": json.dumps(
                [
                    *listed,
                    {"role": "assistant", "content": A, "event.name": "gen_ai.assistant.message"},
                ]
            ),
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 9,
        },
    )
    chat = span(
        "chat gpt-4o-mini",
        parent=root.span_id,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "events": json.dumps([*listed, choice]),
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 9,
        },
    )
    tool = span(
        "running tool",
        parent=root.span_id,
        attributes={
            "gen_ai.tool.name": "get_order_status",
            "gen_ai.tool.call.id": "call_1",
            "tool_arguments": json.dumps(ARGS),
            "tool_response": json.dumps(RESULT),
        },
    )
    turn = one([root, chat, tool])
    exchange(turn)
    called(turn)
    assert (turn.system, turn.usage.input_tokens, turn.operation) == (SYSTEM, 30, "helpdesk")


def test_vercel_4_may_count_not_a_number():
    """`args`, old token names, NaN counts of a stream; the wrapper's answer is the turn's."""
    outer = span(
        "ai.streamText",
        attributes={
            "ai.operationId": "ai.streamText",
            "ai.model.id": "gpt-4o-mini",
            "ai.telemetry.functionId": "helpdesk",
            "ai.telemetry.metadata.sessionId": "s-1",
            "ai.prompt": json.dumps({"system": SYSTEM, "prompt": Q}),
            "ai.response.text": A,
            "ai.usage.promptTokens": float("nan"),
            "ai.usage.completionTokens": float("nan"),
        },
    )
    inner = span(
        "ai.streamText.doStream",
        parent=outer.span_id,
        attributes={
            "ai.operationId": "ai.streamText.doStream",
            "ai.model.provider": "openai.chat",
            "ai.model.id": "gpt-4o-mini",
            "ai.prompt.messages": json.dumps(
                [{"role": "user", "content": [{"type": "text", "text": Q}]}]
            ),
            "ai.response.toolCalls": json.dumps(
                [
                    {
                        "toolCallType": "function",
                        "toolCallId": "call_1",
                        "toolName": "get_order_status",
                        "args": json.dumps(ARGS),
                    }
                ]
            ),
            "ai.response.finishReason": "tool-calls",
            "gen_ai.usage.input_tokens": float("nan"),
            "ai.usage.completionTokens": 17,
        },
    )
    tool = span(
        "ai.toolCall",
        parent=outer.span_id,
        attributes={
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "get_order_status",
            "ai.toolCall.id": "call_1",
            "ai.toolCall.args": json.dumps(ARGS),
            "ai.toolCall.result": json.dumps(RESULT),
        },
    )
    turn = one([outer, inner, tool])
    exchange(turn)
    called(turn)
    assert (turn.provider, turn.conversation_id) == ("openai", "s-1")
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (None, 17)


def test_mlflow_2_and_its_chat_attributes():
    """Every value a JSON dump; the request's own shape inside."""
    dumps = json.dumps
    root = span(
        "helpdesk",
        attributes={
            "mlflow.spanType": dumps("CHAIN"),
            "mlflow.spanInputs": dumps({"question": Q}),
            "mlflow.spanOutputs": dumps(A),
        },
    )
    chat = span(
        "Completions",
        parent=root.span_id,
        attributes={
            "mlflow.spanType": dumps("CHAT_MODEL"),
            "mlflow.spanInputs": dumps(
                {
                    "model": "gpt-4o-mini",
                    "messages": [
                        {"role": "system", "content": SYSTEM},
                        {"role": "user", "content": Q},
                    ],
                    "response_format": {"type": "json_object"},
                }
            ),
            "mlflow.spanOutputs": dumps(
                {
                    "id": "c-1",
                    "model": "gpt-4o-mini",
                    "choices": [
                        {
                            "index": 0,
                            "finish_reason": "length",
                            "message": {"role": "assistant", "content": A},
                        }
                    ],
                    "usage": {"prompt_tokens": 4, "completion_tokens": 2},
                }
            ),
        },
    )
    turn = one([root, chat])
    exchange(turn)
    assert (turn.system, turn.finish_reason, turn.response_id) == (SYSTEM, "length", "c-1")
    assert turn.response_format == {"type": "json_object"}
    assert (turn.usage.input_tokens, turn.model) == (4, "gpt-4o-mini")


def test_langfuse_with_langchain_objects():
    """LangChain messages and documents as Langfuse's callback dumps them."""
    root = span(
        "helpdesk_rag",
        attributes={
            "langfuse.observation.type": "chain",
            "langfuse.observation.input": Q,
            "langfuse.observation.output": A,
            "session.id": "s-1",
        },
    )
    retriever = span(
        "KbRetriever",
        parent=root.span_id,
        attributes={
            "langfuse.observation.type": "retriever",
            "langfuse.observation.input": Q,
            "langfuse.observation.output": json.dumps(
                [
                    {
                        "id": None,
                        "metadata": {"source": "doc-1", "title": "Orders"},
                        "page_content": "Orders ship in two days.",
                        "type": "Document",
                    }
                ]
            ),
        },
    )
    chat = span(
        "ChatOpenAI",
        parent=root.span_id,
        attributes={
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": json.dumps(
                [{"role": "system", "content": SYSTEM}, {"role": "user", "content": Q}]
            ),
            "langfuse.observation.output": json.dumps(
                {"role": "assistant", "content": A, "additional_kwargs": {}}
            ),
            "langfuse.observation.model.name": "gpt-4o-mini",
            "langfuse.observation.usage_details": json.dumps(
                {"input": 12, "output": 3, "total": 15}
            ),
            "langfuse.observation.prompt.name": "support",
            "langfuse.observation.prompt.version": 3,
        },
    )
    turn = one([root, retriever, chat])
    exchange(turn)
    (document,) = turn.documents
    assert (document.id, document.title) == ("doc-1", "Orders")
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (12, 3)
    assert (turn.operation, turn.prompt_version) == ("support", "3")


def oi(kind, parent="", name="span", **attributes):
    return span(name, parent=parent, attributes={"openinference.span.kind": kind, **attributes})


def flat(prefix, *messages):
    """Messages in OpenInference's flattened keys."""
    out = {}
    for index, message in enumerate(messages):
        for key, value in message.items():
            out[f"{prefix}.{index}.message.{key}"] = value
    return out


def test_llama_index_nests_its_wrappers():
    """predict over chat is one call; retrieve over _retrieve is one retrieval."""
    documents = {
        "retrieval.documents.0.document.id": "n-1",
        "retrieval.documents.0.document.content": "Orders ship in two days.",
        "retrieval.documents.0.document.score": 0.7,
    }
    root = oi(
        "CHAIN",
        name="RetrieverQueryEngine.query",
        **{"input.value": json.dumps({"str_or_query_bundle": Q}), "output.value": A},
    )
    outer = oi(
        "RETRIEVER",
        root.span_id,
        "VectorIndexRetriever.retrieve",
        **{"input.value": Q, **documents},
    )
    inner = oi(
        "RETRIEVER",
        outer.span_id,
        "VectorIndexRetriever._retrieve",
        **{"input.value": Q, **documents},
    )
    prompt = f"Context information is below.\nOrders ship in two days.\nQuery: {Q}\nAnswer: "
    wrapper = oi(
        "LLM",
        root.span_id,
        "OpenAILike.predict",
        **{
            "llm.prompt_template.variables": json.dumps({"context_str": "x", "query_str": Q}),
            "output.value": A,
            "input.value": "...",
        },
    )
    call = oi(
        "LLM",
        wrapper.span_id,
        "OpenAILike.chat",
        **{
            **flat("llm.input_messages", {"role": "user", "content": prompt}),
            **flat("llm.output_messages", {"role": "assistant", "content": A}),
            "llm.model_name": "gpt-4o-mini",
            "llm.token_count.prompt": 7,
            "llm.token_count.completion": 2,
        },
    )
    turn = one([root, outer, inner, wrapper, call])
    exchange(turn)
    assert [document.id for document in turn.documents] == ["n-1"]
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (7, 2)
    bare = one([wrapper, call, outer, inner])
    assert bare.query == Q
    assert bare.orphan


def test_smolagents_answers_by_a_tool():
    """`final_answer` is the answer and no tool call."""
    root = oi(
        "AGENT",
        name="ToolCallingAgent.run",
        **{"input.value": json.dumps({"task": Q, "stream": False, "reset": True})},
    )
    step = oi("CHAIN", root.span_id, "Step 1")
    call = oi(
        "LLM",
        step.span_id,
        "OpenAIModel.generate",
        **{
            **flat(
                "llm.input_messages",
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": f"New task:\n{Q}"},
            ),
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c-1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "final_answer",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": json.dumps(
                {"answer": A}
            ),
            "llm.model_name": "gpt-4o-mini",
        },
    )
    tool = oi(
        "TOOL",
        step.span_id,
        "FinalAnswerTool",
        **{
            "tool.name": "final_answer",
            "output.value": A,
            "input.value": json.dumps({"args": [], "kwargs": {"answer": A}}),
        },
    )
    turn = one([root, step, call, tool])
    exchange(turn)
    assert turn.tool_calls == ()


def test_crewai_holds_reprs_around_clean_keys():
    """A crew's input is named by the app; its output is a repr or text."""
    root = oi(
        "CHAIN",
        name="Crew.kickoff",
        **{"input.value": json.dumps({"inputs": {"question": Q}}), "output.value": A},
    )
    agent = oi(
        "AGENT",
        root.span_id,
        "Task._execute_core",
        **{"input.value": "Answer the question", "output.value": A},
    )
    call = oi(
        "LLM",
        agent.span_id,
        "LLM.call",
        **{
            **flat("llm.input_messages", {"role": "user", "content": "Current Task: answer"}),
            **flat("llm.output_messages", {"role": "assistant", "content": f"Final Answer: {A}"}),
            "llm.model_name": "gpt-4o-mini",
        },
    )
    exchange(one([root, agent, call]))


def test_an_sdks_own_span_beneath_a_call_is_the_same_call():
    """The instrumentation has the text, the provider's SDK the tokens: one call, counted once."""
    for scope in ("opentelemetry.instrumentation.genai.anthropic", "x"):
        chat = span(
            "chat claude",
            scope=scope,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "anthropic",
                "gen_ai.request.model": "claude-sonnet-4-5",
                "gen_ai.response.id": "msg_1",
                "gen_ai.usage.input_tokens": 45,
                "gen_ai.usage.output_tokens": 28,
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": Q}]}]
                ),
                "gen_ai.output.messages": json.dumps(
                    [
                        {
                            "role": "assistant",
                            "parts": [{"type": "text", "content": A}],
                            "finish_reason": "stop",
                        }
                    ]
                ),
            },
        )
        sdk = span(
            "anthropic.messages.create",
            parent=chat.span_id,
            scope="com.anthropic.sdk.python",
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "claude",
                "gen_ai.usage.input_tokens": 45,
                "gen_ai.usage.output_tokens": 27,
                "anthropic.message.stop_reason": "end_turn",
            },
        )
        turn = one([chat, sdk])
        exchange(turn)
        assert (turn.usage.input_tokens, turn.usage.output_tokens) == (45, 27)
        assert turn.span_id == chat.span_id
        assert dialects.read([chat, sdk]).unreadable == {}


def test_bedrock_blocks_in_records():
    """Content as a list of blocks without a type, tools as toolUse and toolResult."""
    chat = span(
        "chat nova",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "aws.bedrock",
            "gen_ai.request.model": "amazon.nova-pro-v1:0",
        },
    )
    use = {"toolUse": {"toolUseId": "t-1", "name": "get_order_status", "input": ARGS}}
    result = {
        "toolResult": {"toolUseId": "t-1", "status": "success", "content": [{"json": RESULT}]}
    }
    records = [
        log(chat.span_id, "gen_ai.system.message", {"content": [{"text": SYSTEM}]}),
        log(chat.span_id, "gen_ai.user.message", {"content": [{"text": Q}]}),
        log(chat.span_id, "gen_ai.assistant.message", {"content": [use]}),
        log(chat.span_id, "gen_ai.tool.message", {"content": [result]}),
        log(
            chat.span_id,
            "gen_ai.choice",
            {
                "index": 0,
                "finish_reason": "end_turn",
                "message": {"role": "assistant", "content": [{"text": A}]},
            },
        ),
    ]
    turn = one([chat], records)
    exchange(turn)
    called(turn)
    assert (turn.system, turn.finish_reason) == (SYSTEM, "stop")


def test_azure_puts_messages_as_json_in_an_events_attribute():
    """`gen_ai.event.content` on span events."""
    chat = span(
        "chat gpt-4o",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "az.ai.inference",
            "gen_ai.request.model": "gpt-4o",
        },
        events=(
            Event(
                "gen_ai.user.message",
                1,
                {"gen_ai.event.content": json.dumps({"role": "user", "content": Q})},
            ),
            Event(
                "gen_ai.choice",
                2,
                {
                    "gen_ai.event.content": json.dumps(
                        {"message": {"content": A}, "finish_reason": "stop", "index": 0}
                    )
                },
            ),
        ),
    )
    turn = one([chat])
    exchange(turn)
    assert turn.finish_reason == "stop"


def test_livekit_sessions_hold_many_turns():
    """One trace a session: each agent turn looks back on the one before."""
    session = span("agent_session", attributes={"session.id": "room-1"}, end=10**12)
    spans = [session]
    history = [{"type": "message", "role": "system", "content": [SYSTEM]}]
    pairs = [(Q, A), ("And when exactly?", "At noon.")]
    for query, answer in pairs:
        history = [*history, {"type": "message", "role": "user", "content": [query]}]
        agent = span("agent_turn", parent=session.span_id, attributes={"lk.user_input": query})
        node = span(
            "llm_node",
            parent=agent.span_id,
            attributes={
                "lk.chat_ctx": json.dumps({"items": history}),
                "lk.response.text": answer,
                "lk.response.ttft": 0.25,
            },
        )
        request = span(
            "llm_request",
            parent=node.span_id,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.usage.input_tokens": 9,
                "gen_ai.usage.output_tokens": 4,
            },
        )
        spans += [agent, node, request]
        history = [*history, {"type": "message", "role": "assistant", "content": [answer]}]
    turns = dialects.read(spans).turns
    assert [(turn.query, turn.response) for turn in turns] == pairs
    assert [turn.usage.input_tokens for turn in turns] == [9, 9]
    assert [turn.ordinal for turn in turns] == [0, 1]
    assert {turn.conversation_id for turn in turns} == {"room-1"}


def test_spring_ai_writes_a_transcript():
    """A prompt and a completion as plain text, with roles at the head of paragraphs."""
    client = span("spring_ai chat_client", attributes={"spring.ai.kind": "chat_client"})
    chat = span(
        "chat gpt-4o-mini",
        parent=client.span_id,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.prompt": f"system: {SYSTEM}\nuser: {Q}",
            "gen_ai.completion": A,
            "gen_ai.usage.input_tokens": 9,
        },
    )
    turn = one([client, chat])
    exchange(turn)
    assert turn.system == SYSTEM


@pytest.mark.parametrize(
    ("inputs", "outputs", "kind"),
    [
        ("lmnr.span.input", "lmnr.span.output", {"lmnr.span.type": "DEFAULT"}),
        ("langwatch.input", "langwatch.output", {"langwatch.span.type": "chain"}),
        ("input", "output", {}),
        ("traceloop.entity.input", "traceloop.entity.output", {"traceloop.span.kind": "task"}),
    ],
)
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Q, A),
        (json.dumps({"question": Q}), json.dumps({"answer": A, "sources": []})),
        (json.dumps({"args": [], "kwargs": {"user_query": Q}}), json.dumps(A)),
        (
            json.dumps({"messages": [{"role": "user", "content": Q}]}),
            json.dumps(
                {"messages": [{"role": "user", "content": Q}, {"role": "assistant", "content": A}]}
            ),
        ),
        (
            json.dumps([{"role": "user", "content": Q}]),
            json.dumps({"role": "assistant", "content": A}),
        ),
        (json.dumps({"type": "text", "value": Q}), json.dumps({"type": "text", "value": A})),
        (json.dumps({"inputs": {"input": Q}}), json.dumps({"output": {"result": A}})),
    ],
)
def test_an_apps_own_values_are_read_by_shape(inputs, outputs, kind, asked, said):
    """Whatever an app's function took and gave, under each family's two keys."""
    exchange(one([span("app", attributes={**kind, inputs: asked, outputs: said})]))


def test_a_decorated_rag_without_a_retriever_kind():
    """A task that returns documents is the retriever, whatever it is called."""
    root = span(
        "rag",
        attributes={
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps({"args": [Q], "kwargs": {}}),
            "traceloop.entity.output": json.dumps(A),
        },
    )
    fetch = span(
        "fetch",
        parent=root.span_id,
        attributes={
            "traceloop.span.kind": "task",
            "traceloop.entity.input": json.dumps({"args": [Q], "kwargs": {}}),
            "traceloop.entity.output": json.dumps(
                [{"id": "d-1", "score": 0.5, "text": "Orders ship in two days."}]
            ),
        },
    )
    turn = one([root, fetch])
    exchange(turn)
    assert [(d.id, d.content, d.score) for d in turn.documents] == [
        ("d-1", "Orders ship in two days.", 0.5)
    ]


def chat(messages, answer, parent="", **more):
    """A model call in the structured convention."""
    out = {
        "role": "assistant",
        "parts": [{"type": "text", "content": answer}],
        "finish_reason": "stop",
    }
    return span(
        "chat m",
        parent=parent,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps(
                [
                    {"role": role, "parts": [{"type": "text", "content": text}]}
                    for role, text in messages
                ]
            ),
            "gen_ai.output.messages": json.dumps([out]),
            **more.pop("attributes", {}),
        },
        **more,
    )


def test_one_trace_may_hold_a_conversation():
    """Calls beneath a bare root are turns where each looks back on the answer before."""
    root = span("session")
    first = chat([("user", Q)], A, root.span_id)
    second = chat(
        [("user", Q), ("assistant", A), ("user", "Thanks, which carrier?")],
        "Parcel North.",
        root.span_id,
    )
    turns = dialects.read([root, first, second]).turns
    assert [(turn.query, turn.response) for turn in turns] == [
        (Q, A),
        ("Thanks, which carrier?", "Parcel North."),
    ]
    assert [message.content for message in turns[1].messages] == [Q, A]


def test_an_apps_own_tool_loop_is_one_turn():
    """Observations and complaints that an app writes as the user do not begin a turn."""
    root = span("POST /chat")
    thought = "Action: get_order_status[ORD-1042]"
    first = chat([("user", Q)], thought, root.span_id)
    second = chat(
        [("user", Q), ("assistant", thought), ("user", "Observation: shipped")], A, root.span_id
    )
    turn = one([root, first, second])
    assert turn.response == A
    assert turn.query == Q


def test_a_step_that_another_trace_goes_on_with_is_no_turn():
    """A lone call that ends asking for a tool; a forced call, which stops, is a turn."""
    out = [
        {
            "role": "assistant",
            "finish_reason": "tool_calls",
            "parts": [
                {"type": "tool_call", "id": "c", "name": "get_order_status", "arguments": ARGS}
            ],
        }
    ]
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": Q}]}])
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": asked,
    }
    step = span("chat m", attributes={**attributes, "gen_ai.output.messages": json.dumps(out)})
    assert dialects.read([step]).turns == []
    out[0]["finish_reason"] = "stop"
    forced = span("chat m", attributes={**attributes, "gen_ai.output.messages": json.dumps(out)})
    turn = one([forced])
    assert [call.arguments for call in turn.tool_calls] == [ARGS]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session.id", "s-1"),
        ("gen_ai.conversation.id", "s-1"),
        ("langfuse.trace.metadata.session_id", '"s-1"'),
        ("langsmith.metadata.thread_id", "s-1"),
        ("traceloop.association.properties.session_id", "s-1"),
        ("ai.telemetry.metadata.sessionId", "s-1"),
        ("ai.settings.context.sessionId", "s-1"),
        ("gcp.vertex.agent.session_id", "s-1"),
        ("metadata", json.dumps({"thread_id": "s-1"})),
    ],
)
def test_sessions_are_found_under_every_spelling(key, value):
    """On the call or only on its root."""
    on_call = chat([("user", Q)], A, attributes={key: value})
    assert one([on_call]).conversation_id == "s-1"
    root = span("POST /chat", attributes={key: value})
    assert one([root, chat([("user", Q)], A, root.span_id)]).conversation_id == "s-1"


def test_annotations_on_spans_are_feedback():
    """OpenInference's evaluations and annotations, with their trace- and session-wide forms."""
    root = oi(
        "CHAIN",
        **{
            "input.value": Q,
            "output.value": A,
            "evaluations.0.evaluation.name": "toxicity",
            "evaluations.0.evaluation.score": 0.1,
            "annotations.0.annotation.name": "thumb",
            "annotations.0.annotation.label": "up",
            "trace.annotations.0.annotation.name": "rating",
            "trace.annotations.0.annotation.score": 4,
            "trace.annotations.0.annotation.explanation": "quick",
        },
    )
    found = {judged.name: judged for judged in one([root]).feedback}
    assert found["toxicity"].value == 0.1
    assert found["thumb"].label == "up"
    assert (found["rating"].value, found["rating"].comment) == (4.0, "quick")


def test_media_become_placeholders():
    """Image parts of every provider, and data: URIs inside text."""
    data = "A" * 4000
    shapes = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": data},
        {"inline_data": {"mime_type": "image/png", "data": data}},
    ]
    for shape in shapes:
        messages = [
            {"role": "user", "content": [{"type": "text", "text": Q}, shape]},
            {"role": "assistant", "content": A},
            {"role": "user", "content": "And?"},
        ]
        turn = one(
            [
                span(
                    "chat",
                    attributes={
                        "gen_ai.operation.name": "chat",
                        "gen_ai.request.model": "m",
                        "gen_ai.input.messages": json.dumps(messages),
                        "gen_ai.output.messages": A,
                    },
                )
            ]
        )
        assert turn.messages[0].content == f"{Q}\n[image: image/png, 3 kB]", shape
    audio = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    turn = one(
        [
            chat(
                [("user", Q)],
                A,
                attributes={
                    "gen_ai.input.messages": json.dumps([{"role": "user", "content": [audio]}])
                },
            )
        ]
    )
    assert turn.query == "[audio: audio/wav, 3 kB]"
    turn = one([chat([("user", f"See data:image/png;base64,{data} please")], A)])
    assert turn.query == "See [image: image/png, 3 kB] please"


def test_errors_are_told_with_the_question():
    """A failed root fails the turn; a failed attempt before an answer does not."""
    failed = chat(
        [("user", Q)],
        "",
        failed=True,
        status_message="timeout",
        attributes={"gen_ai.output.messages": ""},
    )
    turn = one([failed])
    assert (turn.query, turn.response, turn.error) == (Q, None, "timeout")
    root = span("agent", attributes={"gen_ai.operation.name": "invoke_agent"})
    retried = chat(
        [("user", Q)],
        "",
        root.span_id,
        failed=True,
        status_message="429",
        attributes={"gen_ai.output.messages": ""},
    )
    turn = one([root, retried, chat([("user", Q)], A, root.span_id)])
    assert (turn.response, turn.error) == (A, None)


def test_a_failed_tool_keeps_its_error():
    """By status, by an exception, by the result's own mark."""
    root = span("agent", attributes={"gen_ai.operation.name": "invoke_agent"})
    call = chat([("user", Q)], A, root.span_id)
    tool = span(
        "execute_tool get_order_status",
        parent=root.span_id,
        failed=True,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_order_status",
        },
        events=(Event("exception", 1, {"exception.message": "no such order"}),),
    )
    assert one([root, call, tool]).tool_calls[0].error == "no such order"


@pytest.mark.parametrize(
    "prompt",
    [
        f"Use only this context:\n[d-1] Orders ship in two days.\n\nQuestion: {Q}",
        f"Context:\n[d-1] Orders ship in two days.\nQuestion: {Q}\nHelpful Answer:",
        f"<document id='d-1'>Orders ship in two days.</document>\n\nUser question: {Q}",
    ],
)
def test_the_bare_question_is_taken_out_of_a_stuffed_prompt(prompt):
    """And the passages become documents, when nothing else tells either."""
    turn = one([chat([("user", prompt)], A)])
    assert turn.query == Q
    assert [(d.id, d.content) for d in turn.documents] == [("d-1", "Orders ship in two days.")]


def test_a_persons_own_question_mark_is_left_alone():
    """A text that merely holds the word is no stuffed prompt."""
    for text in (
        "Question: is it in stock?",
        "I have one more question: is it in stock today, or "
        "only next week? My query: number 17.\nQuery: seventeen",
    ):
        assert one([chat([("user", text)], A)]).query == text


def test_work_without_a_model_is_no_turn():
    """Embeddings, retrievals, decorated functions, plain requests."""
    nothing = [
        span(
            "embeddings m",
            attributes={"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"},
        ),
        oi("EMBEDDING", **{"input.value": Q, "embedding.model_name": "m"}),
        oi("RETRIEVER", **{"input.value": Q, "retrieval.documents.0.document.content": "x"}),
        span(
            "tool",
            attributes={
                "traceloop.span.kind": "tool",
                "traceloop.entity.input": "{}",
                "traceloop.entity.output": "{}",
            },
        ),
        span("GET /health", attributes={"http.request.method": "GET"}),
        span(
            "create_agent",
            attributes={"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "a"},
        ),
    ]
    for alone in nothing:
        assert dialects.read([alone]).turns == []
        assert dialects.read([alone]).unreadable == {}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            json.dumps({"user_msg": Q, "chat_history": None, "memory": None}),
            "AgentOutput(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, "
            f"additional_kwargs={{}}, blocks=[TextBlock(block_type='text', text='{A}')]))",
        ),
        (
            f"QueryBundle(query_str='{Q}', image_path=None)",
            f"Response(response='{A}', source_nodes=[NodeWithScore(node=TextNode(text='x'))])",
        ),
        (json.dumps({"inputs": {"question": Q}}), f"CrewOutput(raw='{A}', pydantic=None)"),
        (Q, json.dumps({"raw": A, "pydantic": None, "tasks_output": []})),
    ],
)
def test_reprs_give_their_text(asked, said):
    """Objects that were only printed: the field that holds the text, by its name."""
    exchange(one([oi("CHAIN", **{"input.value": asked, "output.value": said})]))


def test_a_repr_without_a_text_leaves_it_to_the_model():
    """The root's object tells nothing; the model call below does."""
    root = oi("AGENT", **{"input.value": "Bundle(a=1)", "output.value": "Output(status=<X.OK: 1>)"})
    call = oi(
        "LLM",
        root.span_id,
        **{
            **flat("llm.input_messages", {"role": "user", "content": Q}),
            **flat("llm.output_messages", {"role": "assistant", "content": A}),
            "llm.model_name": "m",
        },
    )
    exchange(one([root, call]))


def test_frames_around_a_task_and_an_answer_fall_away():
    """What an agent framework puts around the task and the final answer."""
    prompt = (
        f"\nCurrent Task: {Q}\n\nThis is the expected criteria for your final answer: short\n"
        "you MUST return the actual complete content"
    )
    call = oi(
        "LLM",
        **{
            **flat("llm.input_messages", {"role": "user", "content": prompt}),
            **flat(
                "llm.output_messages",
                {"role": "assistant", "content": f"Thought: I know.\nFinal Answer: {A}"},
            ),
            "llm.model_name": "m",
        },
    )
    exchange(one([call]))


def test_a_printed_tool_message_gives_its_content():
    """LangChain's tool message as text, in a decorator's and in a callback's wrapping."""
    shown = f"content='{json.dumps(RESULT)}' name='get_order_status' tool_call_id='call_1'"
    for said in (shown, json.dumps({"output": shown, "kwargs": {"tags": []}})):
        root = span(
            "agent",
            attributes={
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": json.dumps({"inputs": Q}),
                "traceloop.entity.output": json.dumps({"outputs": A}),
            },
        )
        tool = span(
            "get_order_status.tool",
            parent=root.span_id,
            attributes={
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "get_order_status",
                "traceloop.entity.input": json.dumps(
                    {"input_str": str(ARGS), "tags": [], "metadata": {}, "inputs": ARGS}
                ),
                "traceloop.entity.output": said,
            },
        )
        turn = one([root, tool])
        exchange(turn)
        called(turn)


def test_langchain_messages_with_their_calls_aside():
    """Calls in `additional_kwargs`; a tool's message whose role is no role."""
    asked = [
        {"role": "user", "content": Q},
        {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [OPENAI_CALL]}},
        {"role": "get_order_status", "content": json.dumps(RESULT), "tool_call_id": "call_1"},
    ]
    generation = span(
        "ChatOpenAI",
        attributes={
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": json.dumps(asked),
            "langfuse.observation.output": json.dumps({"role": "assistant", "content": A}),
        },
    )
    turn = one([generation])
    exchange(turn)
    called(turn)


def test_reading_leaves_spans_as_they_were():
    """Spans may be read again, and by others: nothing in them changes."""
    held = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.input_messages.0.message.content": {"text": {"deep": [1]}},
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": Q}]}],
        "gen_ai.completion.0.tool_calls.0.name": "x",
    }
    before = repr(held)
    dialects.read([span("s", attributes=held)])
    dialects.explain([span("s", attributes=held)])
    assert repr(held) == before


def test_explanations_name_reader_takings_and_use():
    """Each span once, with what was taken and what came of it."""
    root = span("POST /chat", attributes={"session.id": "s-1"})
    call = chat([("user", Q)], A, root.span_id)
    embedding = span(
        "embeddings m",
        parent=root.span_id,
        attributes={"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"},
    )
    by_name = {line.name: line for line in dialects.explain([root, call, embedding])}
    assert len(by_name) == 3
    said = by_name["chat m"]
    assert (said.kind, said.layouts, said.use) == ("model", ("genai",), "counts as a model call")
    assert {"input", "output", "model"} <= set(said.taken)
    assert by_name["POST /chat"].taken == ("conversation",)
    assert by_name["embeddings m"].use.startswith("is left out")
    assert {line.turn_id for line in by_name.values()} == {f"{TRACE}-0"}


def test_agents_that_hand_over_are_one_turn():
    """The first agent was asked, the last one answers; both stand beneath a bare workflow."""
    root = span("invoke_workflow", attributes={"gen_ai.operation.name": "invoke_workflow"})

    def agent(name, asked, said):
        made = chat([("user", asked)], said, root.span_id)
        return span(
            f"invoke_agent {name}",
            parent=root.span_id,
            attributes={
                **made.attributes,
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": name,
            },
        )

    triage = agent("triage", Q, "Handing over to orders.")
    first = chat([("user", Q)], "Handing over to orders.", triage.span_id)
    orders = agent("orders", "Look up ORD-1042", A)
    second = chat([("user", "Look up ORD-1042")], A, orders.span_id)
    turn = one([root, triage, first, orders, second])
    exchange(turn)
    assert turn.operation == "triage"


def test_context_in_a_system_prompt_is_found_under_its_heading():
    """Paragraphs after `Context:`; a system prompt without such a line has none."""
    held = "Answer from the context.\nContext:\nOrders ship in two days.\n\nReturns take a week."
    turn = one([chat([("system", held), ("user", Q)], A)])
    assert [d.content for d in turn.documents] == [
        "Orders ship in two days.",
        "Returns take a week.",
    ]
    assert one([chat([("system", "Use the context: be brief."), ("user", Q)], A)]).documents == ()


def test_langfuse_puts_tools_among_langchains_messages():
    """A definition that stands as what a tool says is offered, and never a call."""
    offered = {"name": "get_order_status", "parameters": {"type": "object", "properties": {}}}
    told = {"type": "function", "function": offered}
    asked = [{"role": "user", "content": Q}, {"role": "tool", "content": told}]
    turn = one(
        [
            span(
                "ChatOpenAI",
                attributes={
                    "langfuse.observation.type": "generation",
                    "langfuse.observation.input": json.dumps(asked),
                    "langfuse.observation.output": json.dumps({"role": "assistant", "content": A}),
                },
            )
        ]
    )
    exchange(turn)
    assert turn.tool_calls == ()
    assert [tool.name for tool in turn.tool_definitions] == ["get_order_status"]


SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
TOOL = {"name": "get_order_status", "description": "Where an order is.", "parameters": SCHEMA}


@pytest.mark.parametrize(
    "attributes",
    [
        {"mlflow.chat.tools": json.dumps([{"type": "function", "function": TOOL}])},
        {
            "model_request_parameters": json.dumps(
                {
                    "function_tools": [
                        {
                            "name": "get_order_status",
                            "description": "Where an order is.",
                            "parameters_json_schema": SCHEMA,
                        }
                    ],
                    "output_tools": [],
                }
            )
        },
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": Q,
            "input.value": json.dumps({"tools": [{"type": "function", "function": TOOL}]}),
        },
    ],
)
def test_tools_that_a_call_offers_are_found(attributes):
    """MLflow's list, pydantic-ai's parameters of a request, a request whose messages are flat."""
    kind = {"openinference.span.kind": "LLM"}
    turn = one([span("call", attributes={**kind, "llm.model_name": "m", **attributes})])
    (tool,) = turn.tool_definitions
    assert (tool.name, tool.description, tool.parameters) == tuple(TOOL.values())


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "openinference.span.kind": "TOOL",
            **{
                f"tool.{key}": value if type(value) is str else json.dumps(value)
                for key, value in TOOL.items()
            },
        },
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_order_status",
            "gen_ai.tool.description": "Where an order is.",
            "gen_ai.tool.json_schema": json.dumps(SCHEMA),
        },
    ],
)
def test_a_tools_own_span_may_define_it(attributes):
    """Where no call tells what was offered."""
    root = span("agent", attributes={"gen_ai.operation.name": "invoke_agent"})
    turn = one([root, span("tool", root.span_id, attributes=attributes)])
    (tool,) = turn.tool_definitions
    assert (tool.name, tool.description, tool.parameters) == tuple(TOOL.values())


def test_a_crews_task_is_its_question():
    """The task, which the crew was given, and not the goal that describes its agent."""
    tasks = [{"id": "1", "description": Q, "expected_output": "a short answer"}]
    crew = span(
        "Crew.kickoff",
        attributes={
            "openinference.span.kind": "CHAIN",
            "crew_inputs": "",
            "crew_tasks": json.dumps(tasks),
            "output.value": json.dumps({"raw": A, "tasks_output": []}),
        },
    )
    described = {"role": "assistant", "goal": "Answer briefly", "backstory": SYSTEM}
    agent = span(
        "agent._execute_core",
        crew.span_id,
        attributes={
            "openinference.span.kind": "AGENT",
            "input.value": json.dumps({"agent": described, "context": "", "tools": []}),
            "output.value": json.dumps({"description": Q, "raw": A}),
        },
    )
    exchange(one([crew, agent]))
    exchange(one([agent]), query=None)


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": {"question": Q}, "metadata": {"session_id": "s-1", "user_id": "u-1"}},
        {"args": [], "kwargs": {"question": Q, "thread_id": "s-1", "user_id": "u-1"}},
        {"question": Q, "conversation_id": "s-1", "userId": "u-1"},
    ],
)
def test_an_apps_own_arguments_may_name_the_session(given):
    """In a callback's metadata, or as what the app's function took."""
    turn = one(
        [
            span(
                "helpdesk.workflow",
                attributes={
                    "traceloop.span.kind": "workflow",
                    "traceloop.entity.input": json.dumps(given),
                    "traceloop.entity.output": json.dumps({"outputs": {"output": A}}),
                },
            )
        ]
    )
    exchange(turn)
    assert (turn.conversation_id, turn.user_id) == ("s-1", "u-1")


def test_objects_that_were_only_printed_are_no_content():
    """A stream or generator that an instrumentation wrote as text."""
    turn = one(
        [
            span(
                "Completions",
                attributes={
                    "openinference.span.kind": "LLM",
                    "llm.model_name": "m",
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": Q,
                    "output.value": "<groq.Stream object at 0x7fb21ed77350>",
                },
            )
        ]
    )
    exchange(turn, response=None)


def test_what_is_said_beside_a_call_is_no_answer_of_its_own():
    """`Let me look.` with a call of a tool: another trace goes on with it."""
    call = {"type": "tool_call", "id": "c", "name": "get_order_status", "arguments": ARGS}
    parts = [{"type": "text", "content": "Let me look."}, call]
    out = [{"role": "assistant", "finish_reason": "tool_call", "parts": parts}]
    step = chat([("user", Q)], "", attributes={"gen_ai.output.messages": json.dumps(out)})
    assert dialects.read([step]).turns == []
    root = span("app", attributes={"openinference.span.kind": "CHAIN", "input.value": Q})
    step = chat(
        [("user", Q)], "", root.span_id, attributes={"gen_ai.output.messages": json.dumps(out)}
    )
    exchange(one([root, step]), response="Let me look.")


def test_turns_of_one_trace_are_told_apart_without_their_answers():
    """Where no answer was exported, the next call's history shows that there was one."""
    root = span("session")
    attributes = {"gen_ai.output.messages": ""}
    first = chat([("user", Q)], "", root.span_id, attributes=attributes)
    more = [("user", Q), ("assistant", A), ("user", "Which carrier?")]
    second = chat(more, "", root.span_id, attributes=attributes)
    turns = dialects.read([root, first, second]).turns
    assert [turn.query for turn in turns] == [Q, "Which carrier?"]


def test_an_sdks_own_request_alone_is_neither_a_turn_nor_a_new_dialect():
    """Never with content: what instruments the call doubles it."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    for scope in ("com.anthropic.sdk.python", "mistralai_sdk_tracer"):
        reading = dialects.read([span("request", scope=scope, attributes=attributes)])
        assert (reading.turns, reading.unreadable) == ([], {})
        (told,) = dialects.explain([span("request", scope=scope, attributes=attributes)])
        assert "could not be read" not in told.use


def test_a_model_that_pydantic_printed_gives_its_text():
    """`field='...' field='...'`, as autogen's messages come through OpenInference."""
    printed = (
        f"id='1' source='user' models_usage=None metadata={{}} content='{Q}' type='TextMessage'"
    )
    agent = span(
        "helpdesk.on_messages_stream",
        attributes={
            "openinference.span.kind": "AGENT",
            "input.value": json.dumps({"messages": [printed], "cancellation_token": "<x at 0x1>"}),
        },
    )
    exchange(one([agent, chat([("user", Q)], A, agent.span_id)]))
    exchange(one([chat([("user", "x=1 y=2 what is z?")], A)]), query="x=1 y=2 what is z?")


def test_a_team_tells_calls_and_results_by_their_keys():
    """autogen's events: contents without a type, the speaker as a source."""
    said = {"models_usage": None, "metadata": {}}
    call = {"id": "c", "name": "get_order_status", "arguments": json.dumps(ARGS)}
    result = {"call_id": "c", "name": "get_order_status", "content": str(RESULT), "is_error": False}
    messages = [
        {**said, "source": "user", "content": Q, "type": "TextMessage"},
        {**said, "source": "helpdesk", "content": [call], "type": "ToolCallRequestEvent"},
        {**said, "source": "helpdesk", "content": [result], "type": "ToolCallExecutionEvent"},
        {**said, "source": "helpdesk", "content": "They want it.", "type": "ThoughtEvent"},
        {**said, "source": "helpdesk", "content": A, "type": "TextMessage"},
    ]
    turn = one(
        [
            span(
                "RoundRobinGroupChat.run_stream",
                attributes={
                    "openinference.span.kind": "CHAIN",
                    "input.value": json.dumps({"task": Q}),
                    "output.value": json.dumps({"messages": messages, "stop_reason": "done"}),
                },
            )
        ]
    )
    exchange(turn)
    called(turn)


def test_arguments_in_place_of_a_schema_define_no_tool():
    """Some write the arguments under `tool.parameters`."""
    root = span("agent", attributes={"gen_ai.operation.name": "invoke_agent"})
    tool = span(
        "tool",
        root.span_id,
        attributes={
            "openinference.span.kind": "TOOL",
            "tool.name": "get_order_status",
            "tool.parameters": json.dumps(ARGS),
            "input.value": json.dumps(ARGS),
            "output.value": json.dumps(RESULT),
        },
    )
    turn = one([root, tool])
    called(turn)
    assert turn.tool_definitions == ()


def test_embeddings_have_tokens_of_their_own():
    """Once each, beside those of the model calls; alone they are no turn."""
    root = span("app", attributes={"openinference.span.kind": "CHAIN", "input.value": Q})
    kind = {"openinference.span.kind": "EMBEDDING", "llm.token_count.prompt": 9}
    wrapper = span("embed_query", root.span_id, attributes=kind)
    call = span("CreateEmbeddings", wrapper.span_id, attributes=kind)
    again = span("CreateEmbeddings", root.span_id, attributes=kind)
    usage = {"gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 5}
    answered = chat([("user", Q)], A, root.span_id, attributes=usage)
    turn = one([root, wrapper, call, again, answered])
    assert turn.usage == Usage(input_tokens=40, output_tokens=5, embedding_tokens=18)
    assert dialects.read([call]).turns == []
