{{- define "weir.name" -}}
{{- if contains "weir" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-weir" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "weir.headless" }}{{ include "weir.name" . }}-headless{{ end }}

{{- /* The domain of the pods: a pod's name in it follows the pod wherever it runs. */}}
{{- define "weir.domain" }}{{ include "weir.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}{{ end }}

{{- define "weir.tlsSecret" }}{{ .Values.tls.secretName | default (printf "%s-tls" (include "weir.name" .)) }}{{ end }}
{{- define "weir.peersSecret" }}{{ .Values.tls.peersSecretName | default (include "weir.tlsSecret" .) }}{{ end }}
{{- define "weir.clusterSecret" }}{{ .Values.clusterSecret.name | default (printf "%s-cluster" (include "weir.name" .)) }}{{ end }}
{{- define "weir.policies" }}{{ .Values.policiesConfigMap | default (ternary (printf "%s-policies" (include "weir.name" .)) "" (not (empty .Values.policies))) }}{{ end }}

{{- /* one: a node alone; cluster; nats. Only a change of it restarts pods that a change of replicas leaves. */}}
{{- define "weir.mode" }}{{ if .Values.nats.url }}nats{{ else if gt (int .Values.replicas) 1 }}cluster{{ else }}one{{ end }}{{ end }}

{{- /* A size as Weir writes it, in MiB. */}}
{{- define "weir.mib" -}}
{{- $n := regexFind "^[0-9]+" . | int64 -}}
{{- if hasSuffix "TiB" . }}{{ mul $n 1048576 }}{{ else if hasSuffix "GiB" . }}{{ mul $n 1024 }}{{ else if hasSuffix "MiB" . }}{{ $n }}{{ else }}{{ fail (printf "%s: write sizes as 512MiB, 2GiB or 1TiB" .) }}{{ end }}
{{- end }}

{{- /* The names by which clients know the server, without those of single pods. */}}
{{- define "weir.hosts" -}}
{{- $name := include "weir.name" . -}}
{{- $ns := .Release.Namespace -}}
{{- concat (list (printf "%s.%s" $name $ns) (printf "%s.%s.svc" $name $ns) (printf "%s.%s.svc.%s" $name $ns .Values.clusterDomain) (printf "*.%s" (include "weir.domain" .))) .Values.hostNames | toYaml }}
{{- end }}

{{- /* Settings that are the same whatever replicas is. The names of pods are in the environment. */}}
{{- define "weir.settings" -}}
{{- $v := .Values -}}
{{- $s := dict "http" "0.0.0.0:8080" "data" "/data" "memory" $v.memory "limit-memory" $v.limitMemory "idempotency-memory" $v.idempotencyMemory "max-disk" $v.storage.maxDisk "drain-delay" $v.drainDelay -}}
{{- $_ := set $s "allow-host" (include "weir.hosts" . | fromYamlArray) -}}
{{- if $v.insecure }}{{ $_ := set $s "insecure" true }}{{ end -}}
{{- if ne $v.tls.source "none" }}{{ $_ := set $s "tls-cert" "/etc/weir/tls/tls.crt" }}{{ $_ := set $s "tls-key" "/etc/weir/tls/tls.key" }}{{ end -}}
{{- if $v.tls.clientCA }}{{ $_ := set $s "tls-client-ca" "/etc/weir/tls/ca.crt" }}{{ end -}}
{{- if $v.tokens.secretName }}{{ $_ := set $s "tokens" (printf "/etc/weir/tokens/%s" $v.tokens.key) }}{{ end -}}
{{- if include "weir.policies" . }}{{ $_ := set $s "policy" "/etc/weir/policies/policies.yaml" }}{{ end -}}
{{- if $v.listeners.resp }}{{ $_ := set $s "resp" "0.0.0.0:6379" }}{{ end -}}
{{- if $v.listeners.rls }}{{ $_ := set $s "rls" "0.0.0.0:8081" }}{{ end -}}
{{- if $v.rlsConfigMap }}{{ $_ := set $s "rls-config" "/etc/weir/rls" }}{{ end -}}
{{- if $v.listeners.statsd }}{{ $_ := set $s "statsd" "0.0.0.0:8125" }}{{ end -}}
{{- if $v.nats.url -}}
  {{- $_ := set $s "nats" $v.nats.url -}}
  {{- if $v.insecure }}{{ $_ := set $s "insecure-peers" true }}{{ end -}}
  {{- if $v.nats.credsSecretName }}{{ $_ := set $s "nats-creds" "/etc/weir/nats/nats.creds" }}{{ end -}}
  {{- if $v.nats.tlsSecretName }}{{ $_ := set $s "nats-tls" "/etc/weir/nats-tls" }}{{ end -}}
{{- else -}}
  {{- $_ := set $s "cluster" (include "weir.name" .) -}}
  {{- $_ := set $s "cluster-listen" "0.0.0.0:7000" -}}
  {{- $_ := set $s "cluster-secret-file" (printf "/etc/weir/cluster/%s" $v.clusterSecret.key) -}}
  {{- if ne $v.tls.source "none" }}{{ $_ := set $s "cluster-tls" "/etc/weir/peers" }}{{ else }}{{ $_ := set $s "insecure-peers" true }}{{ end -}}
{{- end -}}
{{- range $k := keys $v.settings }}{{ if hasKey $s $k }}{{ fail (printf "settings.%s: another value of the chart sets it" $k) }}{{ end }}{{ end -}}
{{- merge $s $v.settings | toYaml }}
{{- end }}

{{- /* What only a look at the values, or at the cluster, can refuse. */}}
{{- define "weir.check" -}}
{{- $v := .Values -}}
{{- $n := int $v.replicas -}}
{{- if and (not $v.insecure) (or (eq $v.tls.source "none") (not $v.tokens.secretName)) }}{{ fail "pods would be served without TLS or without tokens: set tls.source and tokens.secretName (docs/kubernetes.md), or insecure=true" }}{{ end -}}
{{- if and (eq $v.tls.source "certManager") (not $v.tls.issuerRef.name) }}{{ fail "tls.source is certManager: name an issuer with tls.issuerRef.name" }}{{ end -}}
{{- if and (eq $v.tls.source "secret") (not $v.tls.secretName) }}{{ fail "tls.source is secret: name it with tls.secretName" }}{{ end -}}
{{- if and $v.policies $v.policiesConfigMap }}{{ fail "policies and policiesConfigMap: choose one" }}{{ end -}}
{{- if and $v.rlsConfigMap (not $v.listeners.rls) }}{{ fail "rlsConfigMap does nothing without listeners.rls" }}{{ end -}}
{{- $old := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "weir.name" .) -}}
{{- if and $old (not $v.nats.url) -}}
  {{- $was := int $old.spec.replicas -}}
  {{- if and (lt $n $was) (gt $was 3) (lt $n (sub $was 1 | int)) }}{{ fail (printf "from %d nodes to %d: go down by one node at a time, and remove each from the cluster (docs/kubernetes.md)" $was $n) }}{{ end -}}
  {{- if and (eq $was 1) (gt $n 1) -}}
    {{- range $i := untilStep 1 $n 1 -}}
      {{- $claim := printf "data-%s-%d" (include "weir.name" $) $i -}}
      {{- if lookup "v1" "PersistentVolumeClaim" $.Release.Namespace $claim }}{{ fail (printf "the volume of a former node is still there: kubectl delete pvc %s" $claim) }}{{ end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}
