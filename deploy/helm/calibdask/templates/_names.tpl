{{/* Names, labels and the address of the scheduler. */}}

{{- define "calibdask.address" -}}
{{ include "calibdask.protocol" . }}://{{ .Release.Name }}-scheduler:8786
{{- end }}

{{- define "calibdask.protocol" -}}
{{ if .Values.tls.secret }}tls{{ else }}tcp{{ end }}
{{- end }}

{{- define "calibdask.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "calibdask.instance" -}}
app.kubernetes.io/name: calibdask
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Of an object of the chart. */}}
{{- define "calibdask.metadata" -}}
{{- $ := .root -}}
name: {{ .name }}
namespace: {{ $.Release.Namespace }}
labels:
  {{- include "calibdask.instance" $ | nindent 2 }}
  {{- if .component }}
  app.kubernetes.io/component: {{ .component }}
  {{- end }}
  app.kubernetes.io/managed-by: {{ $.Release.Service }}
  helm.sh/chart: {{ $.Chart.Name }}-{{ $.Chart.Version }}
{{- end }}

{{/* Labels that select pods. */}}
{{- define "calibdask.selector" -}}
{{ include "calibdask.instance" .root }}
{{- if .component }}
app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- end }}

{{/* Metadata of a pod; the autoscaler of nodes may evict workers, but neither the scheduler nor the client. */}}
{{- define "calibdask.podMetadata" -}}
metadata:
  labels:
    {{- include "calibdask.selector" . | nindent 4 }}
  {{- if ne .component "worker" }}
  annotations:
    cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
  {{- end }}
{{- end }}

{{/* Not empty where the study is computed by independent shards: nothing listens, and there is no cluster. */}}
{{- define "calibdask.sharded" -}}
{{ if and .Values.job.enabled .Values.job.shards }}yes{{ end }}
{{- end }}

{{/*
A Job cannot be changed: with other contents it is another one, which takes the place of the earlier one. Only how many
of its pods run at a time may be changed (parallelism), so that is no part of the name.
*/}}
{{- define "calibdask.jobName" -}}
{{ .Release.Name }}-run-{{ regexReplaceAll "(?m)^parallelism: .*$" (include "calibdask.jobSpec" .) "" | sha256sum | trunc 8 }}
{{- end }}
