{{- define "pillion.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "pillion.selector" -}}
app.kubernetes.io/name: pillion
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pillion.labels" -}}
{{ include "pillion.selector" . }}
app.kubernetes.io/version: {{ include "pillion.tag" . | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "pillion.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "pillion.server" -}}
{{- if .Values.agent.server }}{{ .Values.agent.server }}
{{- else if .Values.server.enabled }}{{ include "pillion.name" . }}-server.{{ .Release.Namespace }}.svc
{{- else }}{{ fail "set agent.server: server.enabled is false" }}{{ end }}
{{- end }}

{{- define "pillion.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
