{{- define "assay.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "assay.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "assay.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "assay.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "assay.secret" -}}
{{ .Values.existingSecret | default (include "assay.name" .) }}
{{- end }}

{{/* assay.yaml: the values' config with the addresses that the chart's ports rest on. */}}
{{- define "assay.config" -}}
{{- $own := dict "collector" (dict "http" "0.0.0.0:4318" "grpc" "0.0.0.0:4317") "exporters" (dict "prometheus" (dict "listen" "0.0.0.0:9464")) "data_dir" "/data" -}}
{{- if .Values.store.persistence.enabled -}}
{{- $own = mergeOverwrite $own (dict "exporters" (dict "store" (dict "url" "/store"))) -}}
{{- end -}}
{{ toYaml (mergeOverwrite (deepCopy .Values.config) $own) }}
{{- end }}

{{/* A Deployment: root, name, args, values, doors, store. */}}
{{- define "assay.deployment" -}}
{{- $root := .root -}}
{{- $labels := dict "app.kubernetes.io/component" .name -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "assay.name" $root }}-{{ .name }}
  labels:
    {{- include "assay.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  {{- if not .scaled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ $root.Chart.Name }}
      app.kubernetes.io/instance: {{ $root.Release.Name }}
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels:
        {{- include "assay.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
      annotations:
        checksum/config: {{ include "assay.config" $root | sha256sum }}
    spec:
      serviceAccountName: {{ include "assay.serviceAccount" $root }}
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: {{ $root.Values.terminationGracePeriodSeconds }}
      securityContext:
        {{- toYaml $root.Values.podSecurityContext | nindent 8 }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            {{- toYaml .args | nindent 12 }}
          env:
            - {name: ASSAY_CONFIG, value: /etc/assay/assay.yaml}
          {{- if or $root.Values.secrets $root.Values.existingSecret }}
          envFrom:
            - secretRef: {name: {{ include "assay.secret" $root }}}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          ports:
            - {name: metrics, containerPort: 9464}
            {{- if .doors }}
            - {name: otlp-grpc, containerPort: 4317}
            - {name: otlp-http, containerPort: 4318}
            {{- end }}
          # Until the brokers have let the member in, which takes as long as a dead one's session.
          startupProbe:
            httpGet: {path: /health, port: metrics}
            periodSeconds: 5
            failureThreshold: 36
          # /health is 503 when work waits and none was finished for a minute and a half: a member
          # that stands still is replaced.
          livenessProbe:
            httpGet: {path: /health, port: metrics}
            periodSeconds: 30
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /health, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
          {{- if .doors }}
          # Senders go elsewhere before the doors close.
          lifecycle:
            preStop: {exec: {command: [python, -c, "import time; time.sleep(5)"]}}
          {{- end }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/assay, readOnly: true}
            - {name: data, mountPath: /data}
            - {name: tmp, mountPath: /tmp}
            {{- if and .store $root.Values.store.persistence.enabled }}
            - {name: store, mountPath: /store}
            {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ include "assay.name" $root }}}
        - {name: data, emptyDir: {}}
        - {name: tmp, emptyDir: {}}
        {{- if and .store $root.Values.store.persistence.enabled }}
        - name: store
          persistentVolumeClaim: {claimName: {{ include "assay.name" $root }}-store}
        {{- end }}
{{- end }}

{{/* KEDA by the lag of a consumer group: root, name, values, group, topic. */}}
{{- define "assay.keda" -}}
{{- $root := .root -}}
{{- $kafka := $root.Values.config.bus.kafka -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ include "assay.name" $root }}-{{ .name }}
  labels:
    {{- include "assay.labels" $root | nindent 4 }}
spec:
  scaleTargetRef: {name: {{ include "assay.name" $root }}-{{ .name }}}
  minReplicaCount: {{ .values.replicas }}
  maxReplicaCount: {{ .values.keda.maxReplicas }}
  triggers:
    - type: kafka
      metadata:
        bootstrapServers: {{ $kafka.bootstrap | quote }}
        consumerGroup: {{ printf "%s%s" ($kafka.prefix | default "") .group | quote }}
        topic: {{ printf "%s%s" ($kafka.prefix | default "") .topic | quote }}
        lagThreshold: {{ .values.keda.lag | quote }}
        offsetResetPolicy: earliest
{{- end }}
