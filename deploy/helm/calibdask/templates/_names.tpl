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
  {{- if and .component (not $.Values.operator.enabled) }}
  app.kubernetes.io/component: {{ .component }}
  {{- end }}
  app.kubernetes.io/managed-by: {{ $.Release.Service }}
  helm.sh/chart: {{ $.Chart.Name }}-{{ $.Chart.Version }}
{{- end }}

{{/* By which pods are found; the operator gives them labels of its own. */}}
{{- define "calibdask.selector" -}}
{{- $ := .root -}}
{{- if $.Values.operator.enabled -}}
dask.org/cluster-name: {{ $.Release.Name }}
{{- if .component }}
dask.org/component: {{ .component }}
{{- end }}
{{- else -}}
{{ include "calibdask.instance" $ }}
{{- if .component }}
app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- end }}
{{- end }}

{{/* Of a pod; one on which all else depends is not moved to save nodes. */}}
{{- define "calibdask.podMetadata" -}}
{{- $kept := ne .component "worker" -}}
{{- if or $kept (not .root.Values.operator.enabled) -}}
metadata:
  {{- if not .root.Values.operator.enabled }}
  labels:
    {{- include "calibdask.selector" . | nindent 4 }}
  {{- end }}
  {{- if $kept }}
  annotations:
    cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
  {{- end }}
{{- end }}
{{- end }}

{{/* Whether the operator asks the scheduler how many workers there should be. */}}
{{- define "calibdask.askedByOperator" -}}
{{- if and .Values.operator.enabled .Values.autoscaling.enabled }}yes{{ end }}
{{- end }}
