{{/* "muster" for a release called muster, <release>-muster for others. */}}
{{- define "muster.fullname" -}}
{{- if contains "muster" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-muster" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "muster.selectorLabels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "muster.secretName" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "muster.fullname" .)) -}}
{{- end -}}

{{- define "muster.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "muster.policy" -}}
{{- if ne .Values.policy.name "custom" -}}
{{- .Files.Get (printf "files/policies/%s.yaml" .Values.policy.name) -}}
{{- else -}}
{{- required "policy.name is custom: give the policy with --set-file policy.text=policy.yaml" .Values.policy.text -}}
{{- end -}}
{{- end -}}

{{- define "muster.registration" -}}
{{- if ne .Values.policy.name "custom" -}}
{{- .Files.Get (printf "files/registration/%s.yaml" .Values.policy.name) -}}
{{- else -}}
{{- required "policy.name is custom: give what `muster registration render --policy policy.yaml` prints with --set-file policy.registration=registration.yaml, or set registration.enabled=false and run `muster registration apply`" .Values.policy.registration -}}
{{- end -}}
{{- end -}}
