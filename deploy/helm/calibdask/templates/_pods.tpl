{{/* What runs in the pods. */}}

{{- define "calibdask.tlsArguments" -}}
{{- if .Values.tls.secret }}
- --tls-ca-file
- /etc/calibdask/tls/ca.pem
- --tls-cert
- /etc/calibdask/tls/node.pem
- --tls-key
- /etc/calibdask/tls/node-key.pem
{{- end }}
{{- end }}

{{/* Not empty where pods have certificates. */}}
{{- define "calibdask.tls" -}}
{{ if and .Values.tls.secret (not (include "calibdask.sharded" .)) }}yes{{ end }}
{{- end }}

{{- define "calibdask.environment" -}}
- name: HOME
  value: /scratch
- name: TMPDIR
  value: /scratch
- name: DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL
  value: 2 minutes
{{- if include "calibdask.tls" . }}
- name: CALIBDASK_TLS
  value: /etc/calibdask/tls
- name: DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION
  value: "True"
{{- end }}
{{- end }}

{{- define "calibdask.furtherEnvironment" -}}
{{- range $name, $value := .Values.environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "calibdask.store" -}}
{{- if .Values.store.secret }}
envFrom:
  - secretRef:
      name: {{ .Values.store.secret }}
{{- end }}
{{- end }}

{{/* What all containers have; `resources` are their own. */}}
{{- define "calibdask.container" -}}
image: {{ include "calibdask.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
volumeMounts:
  - name: scratch
    mountPath: /scratch
  {{- if include "calibdask.tls" .root }}
  - name: tls
    mountPath: /etc/calibdask/tls
    readOnly: true
  {{- end }}
{{- end }}

{{/* Commands inside the container, since what answers listens on the loopback. */}}
{{- define "calibdask.probe" -}}
exec:
  command: [python, -m, calibdask.cluster.health, "8787"]
{{ toYaml . }}
{{- end }}

{{/* What all pods have. */}}
{{- define "calibdask.pod" -}}
serviceAccountName: {{ .Release.Name }}
automountServiceAccountToken: false
# Variables such as DASK_SCHEDULER_PORT, made of the names of services, would be taken for configuration.
enableServiceLinks: false
# The first process of a container would ignore TERM until it handles it, seconds after its start.
shareProcessNamespace: true
{{- if .Values.image.pullSecret }}
imagePullSecrets:
  - name: {{ .Values.image.pullSecret }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: scratch
    emptyDir:
      sizeLimit: {{ .Values.scratch }}
  {{- if include "calibdask.tls" . }}
  - name: tls
    secret:
      secretName: {{ .Values.tls.secret }}
      defaultMode: 0440
  {{- end }}
{{- end }}

{{- define "calibdask.schedulerPod" -}}
{{ include "calibdask.pod" . }}
terminationGracePeriodSeconds: 30
containers:
  - name: scheduler
    command:
      - dask
      - scheduler
      - --host
      - {{ include "calibdask.protocol" . }}://
      - --port
      - "8786"
      {{- include "calibdask.tlsArguments" . | indent 6 }}
      # Its server for HTTP is there without the dashboard too, and answers the probes.
      - --no-dashboard
      - --dashboard-address
      - 127.0.0.1:8787
    env:
      {{- include "calibdask.environment" . | nindent 6 }}
      {{- include "calibdask.furtherEnvironment" . | indent 6 }}
    {{- include "calibdask.container" (dict "root" . "resources" .Values.scheduler.resources) | nindent 4 }}
    ports:
      - name: tcp-comm
        containerPort: 8786
        protocol: TCP
    startupProbe:
      {{- include "calibdask.probe" .Values.probes.startup | nindent 6 }}
    livenessProbe:
      {{- include "calibdask.probe" .Values.probes.liveness | nindent 6 }}
    readinessProbe:
      {{- include "calibdask.probe" .Values.probes.readiness | nindent 6 }}
{{- end }}

{{- define "calibdask.workerPod" -}}
{{ include "calibdask.pod" . }}
terminationGracePeriodSeconds: 30
containers:
  - name: worker
    command:
      - dask
      - worker
      - {{ include "calibdask.address" . }}
      - --name
      - $(DASK_WORKER_NAME)
      - --nworkers
      - "1"
      - --nthreads
      - {{ .Values.worker.threads | quote }}
      # The nanny needs some of the pod's memory too.
      - --memory-limit
      - "0.85"
      - --worker-port
      - "8788"
      - --nanny-port
      - "8789"
      {{- include "calibdask.tlsArguments" . | indent 6 }}
      - --no-dashboard
      - --dashboard-address
      - 127.0.0.1:8787
      - --local-directory
      - /scratch
    {{- include "calibdask.store" . | indent 4 }}
    env:
      - name: DASK_WORKER_NAME
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      {{- include "calibdask.environment" . | nindent 6 }}
      {{- include "calibdask.furtherEnvironment" . | indent 6 }}
    {{- include "calibdask.container" (dict "root" . "resources" .Values.worker.resources) | nindent 4 }}
    ports:
      - name: worker
        containerPort: 8788
        protocol: TCP
      - name: nanny
        containerPort: 8789
        protocol: TCP
    startupProbe:
      {{- include "calibdask.probe" .Values.probes.startup | nindent 6 }}
    livenessProbe:
      {{- include "calibdask.probe" .Values.probes.liveness | nindent 6 }}
{{- end }}

{{- define "calibdask.clientPod" -}}
{{ include "calibdask.pod" . }}
terminationGracePeriodSeconds: 300
restartPolicy: Never
initContainers:
  - name: wait-for-scheduler
    command: [python, -m, calibdask.cluster.health, "{{ .Release.Name }}-scheduler:8786", "600"]
    env:
      {{- include "calibdask.environment" . | nindent 6 }}
      {{- include "calibdask.furtherEnvironment" . | indent 6 }}
    {{- include "calibdask.container" (dict "root" . "resources" .Values.job.resources) | nindent 4 }}
containers:
  - name: client
    command:
      - calibdask
      - run
      - {{ required "job.study expects a study, such as experiments/ece_benchmark" .Values.job.study | quote }}
      - --store
      - {{ required "job.store expects the cube, s3://..." .Values.job.store | quote }}
      - --cluster
      - {{ include "calibdask.address" . }}
      {{- if .Values.tls.insecure }}
      - --insecure
      {{- end }}
      {{- range .Values.job.arguments }}
      - {{ . | quote }}
      {{- end }}
    {{- include "calibdask.store" . | indent 4 }}
    env:
      {{- include "calibdask.environment" . | nindent 6 }}
      {{- include "calibdask.furtherEnvironment" . | indent 6 }}
    {{- include "calibdask.container" (dict "root" . "resources" .Values.job.resources) | nindent 4 }}
{{- end }}

{{- define "calibdask.shardPod" -}}
{{ include "calibdask.pod" . }}
terminationGracePeriodSeconds: 300
restartPolicy: Never
containers:
  - name: client
    command:
      - calibdask
      - run
      - {{ required "job.study expects a study, such as experiments/ece_benchmark" .Values.job.study | quote }}
      - --store
      - {{ required "job.store expects the cube, s3://..." .Values.job.store | quote }}
      - --shard
      - $(JOB_COMPLETION_INDEX)/{{ .Values.job.shards }}
      - --lay-out
      - --cluster
      - threads:{{ .Values.worker.threads }}
      {{- range .Values.job.arguments }}
      - {{ . | quote }}
      {{- end }}
    {{- include "calibdask.store" . | indent 4 }}
    env:
      - name: JOB_COMPLETION_INDEX
        valueFrom:
          fieldRef:
            fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
      {{- include "calibdask.environment" . | nindent 6 }}
      {{- include "calibdask.furtherEnvironment" . | indent 6 }}
    {{- include "calibdask.container" (dict "root" . "resources" .Values.worker.resources) | nindent 4 }}
{{- end }}
