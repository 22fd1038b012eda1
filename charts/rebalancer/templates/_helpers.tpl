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
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "rebalancer.labels" -}}
{{ include "rebalancer.labelsWith" (list . dict) }}
{{- end -}}

{{- /* The same with further labels, which go before those of all objects. */ -}}
{{- define "rebalancer.labelsWith" -}}
{{- $root := index . 0 -}}
{{ include "rebalancer.selectorLabels" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- include "rebalancer.userLabels" . }}
{{- end -}}

{{- /* Labels of pods and of Jobs, which an upgrade of the chart does not change. */ -}}
{{- define "rebalancer.podLabels" -}}
{{ include "rebalancer.selectorLabels" (index . 0) }}
{{- include "rebalancer.userLabels" . }}
{{- end -}}

{{- define "rebalancer.userLabels" -}}
{{- $root := index . 0 -}}
{{- with merge dict (index . 1 | default dict) ($root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rebalancer.image" -}}
{{- $build := printf "image.repository: no image is published; build one (docker build $(image/bases.sh) -t REGISTRY/rebalancer:%s . && docker push REGISTRY/rebalancer:%s in a clone) and set image.repository=REGISTRY/rebalancer" .Chart.AppVersion .Chart.AppVersion -}}
{{- $repository := required $build .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The policy as text. Numbers stay numbers: toYaml writes 1000000000 and not 1e+09. */ -}}
{{- define "rebalancer.policy" -}}
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
{{- with omit (.Values.policy | default dict) "apiVersion" "kind" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* After how long a run that acts starts no wave. */ -}}
{{- define "rebalancer.maxDuration" -}}
{{- $own := "" -}}
{{- if not .Values.existingConfigMap }}{{ $own = ((.Values.policy).execution).maxDuration }}{{ end -}}
{{- default .Values.maxDuration $own -}}
{{- end -}}

{{- /* A duration in seconds, rounded down; 0 for what is none. */ -}}
{{- define "rebalancer.seconds" -}}
{{- $moment := toDate "2006-01-02" "2000-01-01" -}}
{{- sub (dateModify (printf "+%s" .) $moment | unixEpoch) (unixEpoch $moment) -}}
{{- end -}}

{{- /* What the values cannot say, and why. */ -}}
{{- define "rebalancer.check" -}}
{{- if and (eq .Values.kind "Deployment") .Values.metricsPush -}}
{{- fail "metricsPush: a Deployment is scraped; set service.enabled with serviceMonitor.enabled, or podMonitor.enabled" -}}
{{- end -}}
{{- if and .Values.metricsPush (not .Values.act) -}}
{{- fail "metricsPush: a CronJob that only plans has no metrics; set act: true, or kind: Deployment" -}}
{{- end -}}
{{- if and (eq .Values.kind "CronJob") (not .Values.metricsPush) (or .Values.prometheusRule.enabled .Values.grafanaDashboard.enabled) -}}
{{- fail "prometheusRule, grafanaDashboard: there are no metrics to alert on or to show; set metricsPush with act: true, or kind: Deployment with podMonitor.enabled" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.service.enabled) -}}
{{- fail "serviceMonitor.enabled: it needs service.enabled" -}}
{{- end -}}
{{- if and (eq .Values.kind "CronJob") (or .Values.service.enabled .Values.podMonitor.enabled) -}}
{{- fail "service, serviceMonitor, podMonitor: a CronJob cannot be scraped; set kind: Deployment, or metricsPush" -}}
{{- end -}}
{{- range $value, $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "jobLabels" .Values.jobLabels "cronJobLabels" .Values.cronJobLabels "serviceMonitor.additionalLabels" .Values.serviceMonitor.additionalLabels "podMonitor.additionalLabels" .Values.podMonitor.additionalLabels "prometheusRule.additionalLabels" .Values.prometheusRule.additionalLabels "grafanaDashboard.labels" .Values.grafanaDashboard.labels -}}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" -}}
{{- if hasKey ($labels | default dict) $label -}}
{{- fail (printf "%s: the chart sets the label %s itself; nameOverride changes the name" $value $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.act (eq .Values.kind "CronJob") -}}
{{- $longest := include "rebalancer.maxDuration" . -}}
{{- $wave := "5m" -}}
{{- if not .Values.existingConfigMap }}{{ $wave = ((.Values.policy).execution).waveTimeout | default $wave }}{{ end -}}
{{- $end := add (include "rebalancer.seconds" $longest) (include "rebalancer.seconds" $wave) -}}
{{- if gt $end (int64 .Values.activeDeadlineSeconds) -}}
{{- fail (printf "activeDeadlineSeconds: %d kills the Job within a wave, which may start until %s (maxDuration) and take %s more (execution.waveTimeout); make it %d or more, or one of the others shorter" (int64 .Values.activeDeadlineSeconds) $longest $wave $end) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.act .Values.rbac.create (not .Values.existingConfigMap) -}}
{{- $policy := .Values.policy | default dict -}}
{{- if and (not .Values.allowSteer) (eq (toString (($policy).execution).steer) "softTaint") -}}
{{- fail "policy.execution.steer: softTaint needs the right to patch nodes; set allowSteer: true" -}}
{{- end -}}
{{- $consolidation := (($policy).strategies).consolidation -}}
{{- if and (not .Values.allowSteer) (kindIs "map" $consolidation) -}}
{{- if not (has (toString (dig "taintFor" "0s" $consolidation)) (list "0s" "0m" "0h")) -}}
{{- fail "policy.strategies.consolidation.taintFor needs the right to patch nodes; set allowSteer: true" -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.allowSurge) (eq (toString (($policy).evictable).singleReplica) "surge") -}}
{{- fail "policy.evictable.singleReplica: surge needs the right to patch deployments; set allowSurge: true" -}}
{{- end -}}
{{- end -}}
{{- range $option := list "policy" "lease" "state" "state-config-map" "max-duration" "metrics-push" "kubeconfig" "act" "listen" "from" -}}
{{- if hasKey ($.Values.cmdOptions | default dict) $option -}}
{{- fail (printf "cmdOptions.%s: the chart sets this option itself; use the value of its own" $option) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The pod, whatever starts it. */ -}}
{{- define "rebalancer.podSpec" -}}
{{- $name := include "rebalancer.fullname" . -}}
restartPolicy: {{ if eq .Values.kind "Deployment" }}Always{{ else }}Never{{ end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
priorityClassName: {{ default $name .Values.priorityClassName | quote }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ include "rebalancer.serviceAccountName" . | quote }}
automountServiceAccountToken: {{ .Values.automountServiceAccountToken }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds | int64 }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: rebalancer
    image: {{ include "rebalancer.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - --log-format={{ .Values.logFormat }}
      {{- if eq .Values.kind "Deployment" }}
      - serve
      - --listen=:8080
      {{- if .Values.act }}
      - --act
      {{- end }}
      {{- else }}
      - {{ if .Values.act }}run{{ else }}plan{{ end }}
      {{- end }}
      - --policy=/etc/rebalancer/policy.yaml
      {{- if and (eq .Values.logFormat "json") (eq .Values.kind "CronJob") (not (hasKey (.Values.cmdOptions | default dict) "output")) }}
      - --output=json   # one line among log lines in JSON
      {{- end }}
      {{- if .Values.act }}
      - --lease={{ $name }}   # in the namespace of this pod, as the state
      - --state-config-map={{ $name }}-state
      {{- if or .Values.existingConfigMap (not ((.Values.policy).execution).maxDuration) }}
      - --max-duration={{ .Values.maxDuration }}
      {{- end }}
      {{- if and .Values.metricsPush (eq .Values.kind "CronJob") }}
      - {{ printf "--metrics-push=%s" .Values.metricsPush | quote }}
      {{- end }}
      {{- end }}
      {{- range $option, $value := .Values.cmdOptions }}
      {{- /* Numbers of values are floating-point: 1000000 is not to be written as 1e+06. */}}
      {{- if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $value = int64 $value }}{{ end }}{{ end }}
      - {{ if eq (toString $value) "true" }}{{ printf "--%s" $option | quote }}{{ else }}{{ printf "--%s=%v" $option $value | quote }}{{ end }}
      {{- end }}
    env:   # identifies its own pod, which it never evicts
      - name: POD_NAMESPACE
        valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      - name: POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      - name: OPENBLAS_NUM_THREADS   # else numpy starts a thread for each core of the node
        value: "1"
    {{- if eq .Values.kind "Deployment" }}
    ports:
      - name: http
        containerPort: 8080
    livenessProbe:   # fails only when the loop hangs; a run is given the time that it may take
      httpGet: {path: /healthz, port: http}
      initialDelaySeconds: 30
      periodSeconds: 20
      timeoutSeconds: 5
    readinessProbe:   # says why it cannot do what it is for; a standby is ready
      httpGet: {path: /readyz, port: http}
      periodSeconds: 10
      timeoutSeconds: 5
    {{- end }}
    securityContext:
      {{- toYaml .Values.securityContext | nindent 6 }}
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
    volumeMounts:
      - name: policy
        mountPath: /etc/rebalancer
        readOnly: true
      - name: tmp
        mountPath: /tmp
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: policy
    configMap:
      name: {{ default (printf "%s-policy" $name) .Values.existingConfigMap | quote }}
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
