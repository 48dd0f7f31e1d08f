package helm_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Without these flags what needs the tools is not tried: `make chart-check` passes both, `make manifest` the first.
var (
	helmTool = flag.String("helm", "", "the program helm: render the chart")
	kubeTool = flag.String("kubernetes", "", "folder with the Python package kubernetes_validate: check what was rendered")
)

// manifest is the chart with the values of ci/default-values.yaml, for those who do not use Helm.
const manifest = "../kubernetes/eosbridge.yaml"

// kubernetesVersions are the oldest that the chart allows and the newest that the validator knows.
var kubernetesVersions = []string{"1.27", "1.37"}

func helm(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	path, err := filepath.Abs(*helmTool)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), errors.New(strings.TrimSpace(said.String() + out.String()))
	}
	return out.String(), nil
}

// template renders the chart. A helm that was built from its module takes Kubernetes for an old one unless told.
func template(t *testing.T, args ...string) (text string, err error) {
	t.Helper()
	return helm(t, append([]string{"template", "eosbridge", chart, "--kube-version", kubernetesVersions[0]}, args...)...)
}

// object is one of Kubernetes.
type object map[string]any

// at follows keys and, where they are numbers, indexes.
func (o object) at(t *testing.T, path ...any) any {
	t.Helper()
	var here any = map[string]any(o)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := here.(map[string]any)
			here = m[step]
		case int:
			list, _ := here.([]any)
			if step >= len(list) {
				t.Fatalf("%v: only %d elements", path, len(list))
			}
			here = list[step]
		}
	}
	return here
}

func render(t *testing.T, args ...string) (text string, byKind map[string]object) {
	t.Helper()
	text, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	byKind = map[string]object{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o map[string]any
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return text, byKind
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if o == nil {
			continue
		}
		kind := o["kind"].(string)
		if _, twice := byKind[kind]; twice {
			kind += "/2"
		}
		byKind[kind] = o
	}
}

// validate checks objects against Kubernetes' schemas; unknown fields are faults.
func validate(t *testing.T, files ...string) error {
	t.Helper()
	folder, err := filepath.Abs(*kubeTool)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-m", "kubernetes_validate", "--strict", "--quiet"}
	for _, version := range kubernetesVersions {
		args = append(args, "-k", version)
	}
	cmd := exec.CommandContext(t.Context(), "python3", append(args, files...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubernetes_validate: %w\n%s", err, out)
	}
	return nil
}

// TestChart renders each variant, and has Helm and Kubernetes' schemas judge it.
func TestChart(t *testing.T) {
	if *helmTool == "" {
		return
	}
	dir := t.TempDir()
	var files []string
	for name, values := range variants(t) {
		if out, err := helm(t, "lint", "--strict", "--quiet", "--kube-version", kubernetesVersions[0], chart, "-f", values); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		text, objects := render(t, "-f", values)
		wellFormed(t, objects)
		// Of other makers' kinds there is no schema.
		var known []string
		for _, document := range strings.Split(text, "\n---\n") {
			if !strings.Contains(document, "monitoring.coreos.com/") {
				known = append(known, document)
			}
		}
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(strings.Join(known, "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if *kubeTool == "" {
		return
	}
	if err := validate(t, append(files, manifest)...); err != nil {
		t.Error(err)
	}
	wrong := filepath.Join(dir, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte(strings.Replace(read(t, manifest), "podManagementPolicy", "podManagementPolice", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := validate(t, wrong); err == nil || !strings.Contains(err.Error(), "podManagementPolice") {
		t.Errorf("of a misspelt field: %v", err)
	}
}

// wellFormed asks for what holds whatever the values are.
func wellFormed(t *testing.T, objects map[string]object) {
	t.Helper()
	set := objects["StatefulSet"]
	pod := func(path ...any) any { return set.at(t, append([]any{"spec", "template", "spec"}, path...)...) }
	for _, row := range []struct{ got, want any }{
		{set.at(t, "spec", "podManagementPolicy"), "Parallel"},
		{set.at(t, "spec", "serviceName"), objects["Service"].at(t, "metadata", "name")},
		{objects["Service"].at(t, "spec", "clusterIP"), "None"},
		{pod("enableServiceLinks"), false},
		{pod("automountServiceAccountToken"), false},
		{pod("securityContext", "runAsNonRoot"), true},
		{pod("securityContext", "runAsUser"), 65532},
		{pod("securityContext", "seccompProfile", "type"), "RuntimeDefault"},
	} {
		if row.got != row.want {
			t.Errorf("got %v, want %v", row.got, row.want)
		}
	}
	containers := slices.Clone(pod("containers").([]any))
	if inits, ok := pod("initContainers").([]any); ok {
		containers = append(containers, inits...)
	}
	for _, c := range containers {
		c := object(c.(map[string]any))
		for _, row := range []struct{ got, want any }{
			{c.at(t, "securityContext", "readOnlyRootFilesystem"), true},
			{c.at(t, "securityContext", "allowPrivilegeEscalation"), false},
			{c.at(t, "securityContext", "capabilities", "drop", 0), "ALL"},
			{c.at(t, "env", 0, "name"), "BRIDGE_INSTANCE_ID"},
			{c.at(t, "env", 0, "valueFrom", "fieldRef", "fieldPath"), "metadata.name"},
			{c.at(t, "env", 1, "value"), ":9464"},
		} {
			if row.got != row.want {
				t.Errorf("container %v: got %v, want %v", c["name"], row.got, row.want)
			}
		}
		if c.at(t, "resources", "limits", "memory") == nil {
			t.Errorf("container %v has no memory limit", c["name"])
		}
	}
}

// TestRendered looks at what single values do.
func TestRendered(t *testing.T) {
	if *helmTool == "" {
		return
	}
	all := variants(t)
	_, full := render(t, "-f", all["full"])
	container := []any{"spec", "template", "spec", "containers", 0}
	for _, row := range []struct {
		kind string
		path []any
		want any
	}{
		{"ConfigMap", []any{"data", "BRIDGE_EPOCH_MAX_RECORDS"}, "1000000"}, // and not 1e+06
		{"ConfigMap", []any{"data", "BRIDGE_PROVENANCE"}, "true"},
		{"ConfigMap", []any{"data", "BRIDGE_OUTPUT_TOPIC"}, "{topic}-clean"},
		{"ConfigMap/2", []any{"data", "note.txt"}, "two\nlines\n"},
		{"StatefulSet", []any{"metadata", "name"}, "orders"},
		{"StatefulSet", []any{"spec", "template", "spec", "initContainers", 0, "args", 0}, "check"},
		{"StatefulSet", []any{"spec", "template", "spec", "terminationGracePeriodSeconds"}, 75},
		{"StatefulSet", slices.Concat(container, []any{"envFrom", 1, "secretRef", "name"}), "orders-bridge"},
		{"StatefulSet", slices.Concat(container, []any{"startupProbe", "httpGet", "path"}), "/livez"},
		{"StatefulSet", slices.Concat(container, []any{"readinessProbe", "httpGet", "path"}), "/readyz"},
		{"StatefulSet", slices.Concat(container, []any{"livenessProbe", "httpGet", "path"}), "/livez"},
		{"PodDisruptionBudget", []any{"spec", "maxUnavailable"}, 1},
		{"NetworkPolicy", []any{"spec", "egress", 2, "ports", 0, "port"}, 443},
		{"ServiceMonitor", []any{"metadata", "labels", "release"}, "prometheus"},
		{"ServiceMonitor", []any{"spec", "endpoints", 0, "path"}, "/metrics"},
	} {
		if got := full[row.kind].at(t, row.path...); got != row.want {
			t.Errorf("%s %v = %v, want %v", row.kind, row.path, got, row.want)
		}
	}
	secure, _ := render(t, "-f", all["tls-sasl"])
	for _, want := range []string{
		"name: KAFKA_SASL_PASSWORD_FILE\n              value: /etc/eosbridge/secret/password",
		"name: KAFKA_TLS_KEY_FILE\n              value: /etc/eosbridge/tls/tls.key",
		"secretName: orders-bridge\n", "secretName: orders-bridge-tls\n",
	} {
		if !strings.Contains(secure, want) {
			t.Errorf("no %q in:\n%s", want, secure)
		}
	}
	if strings.Contains(secure, "secretRef") {
		t.Error("a secret that is mounted is in the environment as well")
	}
	for _, unwanted := range []string{"NetworkPolicy", "ServiceMonitor", "PrometheusRule"} {
		if strings.Contains(secure, "kind: "+unwanted) {
			t.Errorf("%s was not asked for", unwanted)
		}
	}
	rolls(t, all["default"])
}

// rolls: a changed setting makes new pods.
func rolls(t *testing.T, values string) {
	t.Helper()
	checksum := func(args ...string) any {
		_, objects := render(t, append([]string{"-f", values}, args...)...)
		return objects["StatefulSet"].at(t, "spec", "template", "metadata", "annotations", "checksum/config")
	}
	if checksum() == checksum("--set", "config.BRIDGE_EPOCH_INTERVAL=5ms") {
		t.Error("a changed setting leaves the pods as they are")
	}
}

// TestPrometheusRule renders the alerts, where the chart has them.
func TestPrometheusRule(t *testing.T) {
	if *helmTool == "" {
		return
	}
	args := []string{"-f", variants(t)["default"], "--set", "prometheusRule.enabled=true"}
	if _, err := os.Stat(chart + "/alerts.yaml"); err != nil {
		if _, err := template(t, args...); err == nil {
			t.Error("a chart without alerts renders a rule without any")
		}
		return
	}
	var alerts struct{ Groups []any }
	if err := yaml.Unmarshal([]byte(read(t, chart+"/alerts.yaml")), &alerts); err != nil {
		t.Fatal(err)
	}
	_, objects := render(t, args...)
	if got, _ := objects["PrometheusRule"].at(t, "spec", "groups").([]any); len(got) == 0 || len(got) != len(alerts.Groups) {
		t.Errorf("%d groups of alerts, want %d", len(got), len(alerts.Groups))
	}
}

// TestRefused: values that cannot work are refused before anything is installed, by name.
func TestRefused(t *testing.T) {
	if *helmTool == "" {
		return
	}
	for _, row := range []struct {
		name, want string
		args       []string
	}{
		{"unknown key", "replicaz", []string{"--set", "replicaz=2"}},
		{"unknown key below", "tagg", []string{"--set", "image.tagg=x"}},
		{"text for a number", "replicas", []string{"--set-string", "replicas=2"}},
		{"negative", "replicas", []string{"--set", "replicas=-1"}},
		{"a half", "replicas", []string{"--set", "replicas=1.5"}},
		{"no broker", "KAFKA_BOOTSTRAP_SERVERS", []string{"--set", "config.KAFKA_BOOTSTRAP_SERVERS="}},
		{"the instance id is the pod's name", "BRIDGE_INSTANCE_ID", []string{"--set", "config.BRIDGE_INSTANCE_ID=x"}},
		{"also as more environment", "extraEnv", []string{"--set", "extraEnv[0].name=BRIDGE_INSTANCE_ID"}},
		{"a secret in a ConfigMap", "KAFKA_SASL_PASSWORD", []string{"--set", "config.KAFKA_SASL_PASSWORD=x"}},
		{"a name that is none", "kafka-x", []string{"--set", "config.kafka-x=1"}},
		{"a digest that is none", "digest", []string{"--set", "image.digest=sha256:1"}},
		{"pull policy", "pullPolicy", []string{"--set", "image.pullPolicy=Sometimes"}},
		{"a port that is none", "brokerPorts", []string{"--set", "networkPolicy.brokerPorts={99999}"}},
		{"a period of 0", "periodSeconds", []string{"--set", "probes.liveness.periodSeconds=0"}},
		{"where to spread", "whenUnsatisfiable", []string{"--set", "topologySpread.whenUnsatisfiable=Never"}},
		{"killed before its last commit", "BRIDGE_STOP_TIMEOUT=20s", []string{"--set", "terminationGracePeriodSeconds=20"}},
		{"also in minutes", "125 or more", []string{"--set", "config.BRIDGE_STOP_TIMEOUT=2m"}},
		{"files of no Secret", "existingSecret", []string{"--set", "secretFiles.KAFKA_SASL_PASSWORD=password"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := template(t, append([]string{"-f", chart + "/ci/default-values.yaml"}, row.args...)...)
			if err == nil {
				t.Fatalf("rendered:\n%s", out)
			}
			if !strings.Contains(err.Error(), row.want) {
				t.Errorf("says not %q: %v", row.want, err)
			}
		})
	}
	if _, err := template(t); err == nil || !strings.Contains(err.Error(), "BRIDGE_GROUP_ID") {
		t.Errorf("without values: %v", err)
	}
}

// ofHelm are lines that only mean something where Helm manages the objects: a plain manifest has no release, and nobody
// computes its checksum again.
var ofHelm = regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^ +annotations:\n +checksum/config: .*\n|^# Source: .*\n`)

// TestManifest holds the plain manifest to the chart.
func TestManifest(t *testing.T) {
	if *helmTool == "" {
		return
	}
	text, _ := render(t, "-f", variants(t)["default"])
	text = "# The Helm chart in deploy/helm/eosbridge with the values of ci/default-values.yaml; written by make manifest.\n" +
		ofHelm.ReplaceAllString(text, "")
	if *update {
		if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, manifest) != text {
		t.Error("deploy/kubernetes/eosbridge.yaml is not what the chart renders: run make manifest")
	}
}
