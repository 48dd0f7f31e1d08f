{{- define "eosbridge.name" -}}
{{- default .Chart.Name .Values.nameOverride | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* An instance id holds no dot. At most 52 characters: a StatefulSet appends a revision of 11 to the name in a label of 63. */}}
{{- define "eosbridge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "eosbridge.name" .) .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "eosbridge.name" .) | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "eosbridge.selector" -}}
app.kubernetes.io/name: {{ include "eosbridge.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eosbridge.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "eosbridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "eosbridge.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "eosbridge.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "eosbridge.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What the bridge and the check before it share. */}}
{{- define "eosbridge.environment" -}}
env:
  - name: BRIDGE_INSTANCE_ID
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: BRIDGE_HTTP_ADDR
    value: ":9464"
  {{- range $name, $key := .Values.secretFiles }}
  - name: {{ $name }}_FILE
    value: /etc/eosbridge/secret/{{ $key }}
  {{- end }}
  {{- if .Values.tls.existingSecret }}
  - name: KAFKA_TLS_CA_FILE
    value: /etc/eosbridge/tls/ca.crt
  {{- if .Values.tls.clientCertificate }}
  - name: KAFKA_TLS_CERT_FILE
    value: /etc/eosbridge/tls/tls.crt
  - name: KAFKA_TLS_KEY_FILE
    value: /etc/eosbridge/tls/tls.key
  {{- end }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
envFrom:
  - configMapRef:
      name: {{ include "eosbridge.fullname" . }}
  {{- if and .Values.existingSecret (not .Values.secretFiles) }}
  - secretRef:
      name: {{ .Values.existingSecret }}
  {{- end }}
  {{- with .Values.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with include "eosbridge.mounts" . | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "eosbridge.mounts" -}}
{{- if .Values.secretFiles }}
- name: secret
  mountPath: /etc/eosbridge/secret
  readOnly: true
{{- end }}
{{- if .Values.tls.existingSecret }}
- name: tls
  mountPath: /etc/eosbridge/tls
  readOnly: true
{{- end }}
{{- if .Values.files }}
- name: files
  mountPath: /etc/eosbridge/files
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A StatefulSet's time for a stop has to hold the bridge's own. Durations other than whole seconds or minutes are not compared. */}}
{{- define "eosbridge.grace" -}}
{{- $stop := default "20s" .Values.config.BRIDGE_STOP_TIMEOUT -}}
{{- $seconds := 0 -}}
{{- if regexMatch "^[0-9]+s$" $stop -}}
{{- $seconds = trimSuffix "s" $stop | int -}}
{{- else if regexMatch "^[0-9]+m$" $stop -}}
{{- $seconds = mul 60 (trimSuffix "m" $stop | int) -}}
{{- end -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add 5 $seconds | int) -}}
{{- fail (printf "terminationGracePeriodSeconds=%d kills a bridge that may need BRIDGE_STOP_TIMEOUT=%s for its last commit: set it to %d or more" (int .Values.terminationGracePeriodSeconds) $stop (add 5 $seconds)) -}}
{{- end -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- end -}}
