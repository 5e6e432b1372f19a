{{/* The name of all objects: that of the release, which has 53 characters at most, with "usher" in it. */}}
{{- define "usher.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* What pods are selected by. Never changes. */}}
{{- define "usher.podLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "usher.labels" -}}
{{ include "usher.podLabels" . }}
app.kubernetes.io/component: service-proxy
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Nodes that Usher is on, and that are cleaned up after it. */}}
{{- define "usher.nodeSelector" -}}
{{- $swapped := ternary (dict "node-proxy" "usher") dict .Values.replaceKubeProxy -}}
{{- merge $swapped (default dict .Values.nodeSelector) | toYaml -}}
{{- end -}}

{{/* By digest where there is one. */}}
{{- define "usher.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (printf "%s-tools" .Chart.AppVersion) $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The file of --config. */}}
{{- define "usher.config" -}}
{{ toYaml .Values.config }}
{{- end -}}

{{/* Without a control socket that both pods of a node have, the old one has to end first. */}}
{{- define "usher.updateStrategy" -}}
{{- $strategy := deepCopy .Values.updateStrategy -}}
{{- with $strategy.rollingUpdate -}}
{{- $none := list "0" "0%" -}}
{{- $surge := default 0 .maxSurge -}}
{{- if eq (has (toString $surge) $none) (has (default 0 .maxUnavailable | toString) $none) -}}
{{- fail "updateStrategy.rollingUpdate: one of maxSurge and maxUnavailable has to be 0, and the other one not" -}}
{{- end -}}
{{- if and $.Values.nonRoot (not (has (toString $surge) $none)) -}}
{{- $_ := set $strategy "rollingUpdate" (dict "maxUnavailable" $surge "maxSurge" 0) -}}
{{- end -}}
{{- end -}}
{{ toYaml $strategy }}
{{- end -}}

{{/* The port at the end of an address, as in [::]:10256. */}}
{{- define "usher.port" -}}
{{- splitList ":" . | last -}}
{{- end -}}

{{/* Of pods of the cleanup and of the test. */}}
{{- define "usher.shortResources" -}}
requests:
  cpu: 100m
  memory: 64Mi
limits:
  memory: 512Mi
{{- end -}}

{{- define "usher.nobody" -}}
runAsUser: 65532
runAsGroup: 65532
runAsNonRoot: true
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
