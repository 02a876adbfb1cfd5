{{/* The spec of the Job: one client of the cluster, or independent shards. */}}
{{- define "calibdask.jobSpec" -}}
{{- $sharded := include "calibdask.sharded" . -}}
{{- if $sharded -}}
completionMode: Indexed
completions: {{ .Values.job.shards }}
parallelism: {{ min .Values.job.shards .Values.worker.replicas }}
backoffLimitPerIndex: {{ .Values.job.tries }}
{{- else -}}
backoffLimit: {{ .Values.job.tries }}
{{- end }}
podFailurePolicy:
  rules:
    # The eviction of a pod from its node does not count as an attempt.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
    # Bad use (2) and failed cells (3): a retry would change neither. Other shards go on where cells have failed.
    - action: FailJob
      onExitCodes:
        containerName: client
        operator: In
        values: {{ ternary "[2]" "[2, 3]" (eq $sharded "yes") }}
    {{- if $sharded }}
    - action: FailIndex
      onExitCodes:
        containerName: client
        operator: In
        values: [3]
    {{- end }}
template:
  {{- include "calibdask.podMetadata" (dict "root" . "component" "client") | nindent 2 }}
  spec:
    {{- if $sharded }}
    {{- include "calibdask.shardPod" . | nindent 4 }}
    {{- else }}
    {{- include "calibdask.clientPod" . | nindent 4 }}
    {{- end }}
{{- end }}
