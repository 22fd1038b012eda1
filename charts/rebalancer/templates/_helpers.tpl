{{- define "rebalancer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rebalancer.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "rebalancer.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rebalancer.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the service account, because serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rebalancer.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rebalancer.labels" -}}
{{ include "rebalancer.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rebalancer.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The policy as text. Numbers stay numbers: toYaml writes 1000000000 and not 1e+09. */ -}}
{{- define "rebalancer.policy" -}}
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
{{ toYaml (omit .Values.policy "apiVersion" "kind") }}
{{- end -}}

{{- /* What the values cannot say, and why. */ -}}
{{- define "rebalancer.check" -}}
{{- if eq .Values.kind "Deployment" -}}
{{- fail "kind: rebalancer has no service that keeps running yet, so there is no Deployment; set kind: CronJob" -}}
{{- end -}}
{{- range $option := list "policy" "lease" "state" "state-config-map" "max-duration" "metrics-push" "kubeconfig" "from" -}}
{{- if hasKey $.Values.cmdOptions $option -}}
{{- fail (printf "cmdOptions.%s: the chart sets this option itself; use the value of its own" $option) -}}
{{- end -}}
{{- end -}}
{{- end -}}
