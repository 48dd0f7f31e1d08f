// Package commands runs what the documents tell a reader to type, from the README to a service, a container and a
// StatefulSet, on a real Kafka of three brokers: make docs-run.
//
// What needs a machine of its own is stood in for by the scripts in stand-ins, which say so: systemd as process 1 (its unit
// is installed below a folder, and its lines are run as systemd would), podman (buildah runs the image, without limits and
// networks of its own), a cluster of Kubernetes (helm renders, the schemas judge, and the containers' commands are run with
// the environment that is rendered), and Kafka's own tools (this program makes the topic). Needed besides what other tests
// need: buildah, kubectl, systemd-analyze and systemctl.
package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"github.com/eosbridge/eosbridge/test/kafka"
)

var (
	wanted     = flag.Bool("run-commands", false, "run the commands of the documents; some minutes, as root, on Linux")
	helmTool   = flag.String("helm", "", "the program helm")
	kubernetes = flag.String("kubernetes", "", "folder with the Python package kubernetes_validate")
)

// standIn is set where this program stands in for kafka-topics.sh.
const standIn = "COMMANDS_STAND_IN"

func TestMain(m *testing.M) {
	if os.Getenv(standIn) != "" {
		if err := kafkaTopics(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "kafka-topics.sh:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(kafka.Main(m))
}

// kafkaTopics makes a topic as kafka-topics.sh --create does. Another option is an error.
func kafkaTopics(args []string) error {
	var server, topic string
	partitions, replicas, configs, create := -1, -1, map[string]*string{}, false
	for len(args) > 0 {
		name := args[0]
		args = args[1:]
		if name == "--create" {
			create = true
			continue
		}
		if len(args) == 0 {
			return fmt.Errorf("%s without a value", name)
		}
		value, err := args[0], error(nil)
		args = args[1:]
		switch name {
		case "--bootstrap-server":
			server = value
		case "--topic":
			topic = value
		case "--partitions":
			partitions, err = strconv.Atoi(value)
		case "--replication-factor":
			replicas, err = strconv.Atoi(value)
		case "--config":
			key, v, _ := strings.Cut(value, "=")
			configs[key] = &v
		default:
			err = fmt.Errorf("unknown option %s", name)
		}
		if err != nil {
			return err
		}
	}
	if !create || topic == "" {
		return errors.New("only --create is stood in for")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(server, ",")...))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), int16(replicas), configs, topic) //nolint:gosec // a document's small numbers
	return err
}

// blocks are the shell blocks of a document by the heading that they stand under.
func blocks(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, heading, inside := map[string][]string{}, "", false
	var block strings.Builder
	for line := range strings.Lines(string(text)) {
		switch {
		case inside && strings.HasPrefix(line, "```"):
			inside = false
			all[heading] = append(all[heading], block.String())
			block.Reset()
		case inside:
			block.WriteString(line)
		case strings.HasPrefix(line, "```sh"):
			inside = true
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return all
}

// place is where the commands are run: a copy of the repository, a root for what they install, and a cluster.
type place struct {
	repo, root, tools string
	cluster           *kafka.Cluster
	environ           map[string]string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	work := t.TempDir()
	p := &place{repo: filepath.Join(work, "eosbridge"), root: filepath.Join(work, "root")}
	for _, dir := range []string{p.repo, filepath.Join(p.root, "usr/bin"), filepath.Join(p.root, "etc/systemd/system")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.shell(t, "../..", nil, "git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -c | tar -x -C '"+p.repo+"'")
	p.tools = filepath.Join(p.repo, "test/commands/stand-ins")
	p.cluster = kafka.Start(t, kafka.Options{Version: kafka.V44, Nodes: 3, Users: map[string]string{"orders-bridge": "not-secret"}})
	adm := p.cluster.Admin(t)
	if _, err := adm.CreateTopic(t.Context(), 6, 3, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	cl := p.cluster.Client(t)
	for i := range 1000 {
		cl.Produce(t.Context(), &kgo.Record{Topic: "orders", Key: []byte(strconv.Itoa(i)), Value: []byte(`{"order": 1}`)}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.environ = map[string]string{
		"PATH": p.tools + ":" + os.Getenv("PATH"), "HOME": work, "ROOT": p.root, "SEEDS": p.cluster.Bootstrap(),
		"EDITOR": "edit", "PROGRAM": os.Args[0], "HELM": *helmTool, "WORK": work,
		"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs", "KAFKA_PASSWORD": "not-secret",
		"GOPATH": goEnv(t, "GOPATH"), "GOCACHE": goEnv(t, "GOCACHE"), "GOMODCACHE": goEnv(t, "GOMODCACHE"), "VERSION": "docs-run",
	}
	return p
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// shell runs a script as a reader's shell would, but ends at the first command that fails, and answers what it said.
func (p *place) shell(t *testing.T, dir string, more map[string]string, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	if p.environ != nil {
		cmd.Env = list(p.environ, more)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v of\n%s\n%s", err, script, out.String())
	}
	return out.String()
}

func list(all ...map[string]string) (environ []string) {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		environ = append(environ, name+"="+merged[name])
	}
	return environ
}

// follow runs a block of a document, with the names of its cluster and its folders replaced by those that there are.
func (p *place) follow(t *testing.T, block string) {
	t.Helper()
	script := strings.NewReplacer(
		"kafka-1:9092,kafka-2:9092", p.cluster.Bootstrap(), "kafka-1:9092", p.cluster.Bootstrap(), "=kafka:9092", "="+p.cluster.Bootstrap(),
		" /usr/bin/", " "+p.root+"/usr/bin/", " /etc/", " "+p.root+"/etc/",
		// A bridge in the foreground is ended by the reader.
		"\nbin/eosbridge\n", "\ntimeout --preserve-status --signal=TERM 8 bin/eosbridge\n",
	).Replace("\n" + block)
	// Helm's --set takes commas for its own.
	script = regexp.MustCompile(`(--set config\.KAFKA_BOOTSTRAP_SERVERS=)(\S+)`).ReplaceAllStringFunc(script, func(s string) string {
		return strings.ReplaceAll(s, ",", `\\,`)
	})
	t.Logf("%s\n%s", block, p.shell(t, p.repo, nil, script))
}

// TestCommands follows the documents from the top to the bottom.
func TestCommands(t *testing.T) {
	if !*wanted {
		return
	}
	p := newPlace(t)
	install, charts := blocks(t, "../../docs/install.md"), blocks(t, "../../docs/kubernetes.md")
	part := func(name string, of map[string][]string, heading string, then func(t *testing.T)) {
		if len(of[heading]) == 0 {
			t.Fatalf("no block of shell under %q any more", heading)
		}
		if !t.Run(name, func(t *testing.T) {
			p.follow(t, of[heading][0])
			then(t)
		}) {
			t.FailNow() // what follows rests on it
		}
	}
	part("install", install, "Install", func(*testing.T) {})
	t.Run("README", func(t *testing.T) { p.follow(t, readme(t)) })
	part("systemd", install, "systemd", p.asSystemd)
	part("container", install, "Container", p.endContainer)
	part("kubernetes in install.md", install, "Kubernetes", func(t *testing.T) { p.asKubernetes(t, true) })
	part("kubernetes.md", charts, "Install", func(t *testing.T) { p.asKubernetes(t, false) })
}

// readme is the indented block under "Run it".
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Run it\n")
	var block strings.Builder
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "    ") {
			block.WriteString(strings.TrimPrefix(line, "    "))
		} else if strings.TrimSpace(line) != "" {
			break
		}
	}
	if !strings.Contains(block.String(), "\nbin/eosbridge\n") {
		t.Fatalf("the README does not start a bridge:\n%s", block.String())
	}
	return block.String()
}

// asSystemd does with the unit that was installed what systemd would: its credential, the line before the start, the start,
// until it says that it is ready, and SIGTERM.
func (p *place) asSystemd(t *testing.T) {
	unit := filepath.Join(p.root, "etc/systemd/system/eosbridge.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	p.shell(t, p.repo, nil, "test -L '"+p.root+"/etc/systemd/system/multi-user.target.wants/eosbridge.service'")
	line := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(string(text))
		if found == nil {
			t.Fatalf("no %s in the unit", name)
		}
		return strings.ReplaceAll(found[1], "/usr/bin/", p.root+"/usr/bin/")
	}
	environ := envFile(t, p.root+line("EnvironmentFile"))
	p.shell(t, p.root, environ, line("ExecStartPre"))

	// With the lines for the password in force, which verify as the others do.
	secured := regexp.MustCompile(`(?m)^#((LoadCredential|Environment)=)`).ReplaceAllString(string(text), "$1")
	if secured == string(text) {
		t.Fatal("the unit shows no credential")
	}
	checked := filepath.Join(t.TempDir(), "eosbridge.service")
	if err := os.WriteFile(checked, []byte(strings.ReplaceAll(secured, "=/usr/bin/eosbridge", "=/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := p.shell(t, p.root, nil, "systemd-analyze verify --man=no --recursive-errors=no '"+checked+"'"); said != "" {
		t.Errorf("systemd-analyze: %s", said)
	}
	credentials := t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "kafka-password"), []byte("not-secret\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^Environment=(KAFKA_SASL_PASSWORD_FILE)=%d(/.*)$`).FindStringSubmatch(secured)
	if named == nil {
		t.Fatal("the unit does not say where the password lies")
	}
	maps.Copy(environ, p.guarded())
	environ[named[1]] = credentials + named[2]
	grant(t, p.cluster.Admin(t))
	p.shell(t, p.root, environ, line("ExecStartPre"))
	p.starts(t, environ, strings.Fields(line("ExecStart")))
}

// guarded is the environment of the listener that asks for a password. There is no TLS here.
func (p *place) guarded() map[string]string {
	return map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": p.cluster.Guarded(), "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "PLAIN",
		"KAFKA_SASL_USERNAME": "orders-bridge", "KAFKA_SASL_ALLOW_PLAINTEXT": "true",
	}
}

// grant permits the user what docs/check.md says that the bridge needs.
func grant(t *testing.T, adm *kadm.Client) {
	t.Helper()
	base := func() *kadm.ACLBuilder { return kadm.NewACLs().Allow("User:orders-bridge").AllowHosts("*") }
	for _, acl := range []*kadm.ACLBuilder{
		base().ResourcePatternType(kadm.ACLPatternLiteral).Topics("orders").Operations(kadm.OpRead),
		base().ResourcePatternType(kadm.ACLPatternLiteral).Topics("orders-clean").Operations(kadm.OpWrite),
		base().ResourcePatternType(kadm.ACLPatternLiteral).Groups("orders-bridge").Operations(kadm.OpRead),
		base().ResourcePatternType(kadm.ACLPatternPrefixed).TransactionalIDs("orders-bridge.").Operations(kadm.OpWrite),
	} {
		if _, err := adm.CreateACLs(t.Context(), acl); err != nil {
			t.Fatal(err)
		}
	}
}

// starts runs a service until it says that it is ready, and ends it with SIGTERM.
func (p *place) starts(t *testing.T, environ map[string]string, args []string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = list(p.environ, environ, map[string]string{"NOTIFY_SOCKET": socket})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for message := make([]byte, 4096); ; {
		n, err := conn.Read(message)
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
			t.Fatalf("it did not say that it is ready: %v\n%s", err, out.String())
		}
		if strings.Contains(string(message[:n]), "READY=1") {
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v after SIGTERM:\n%s", err, out.String())
	}
}

// envFile reads an EnvironmentFile.
func envFile(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			environ[name] = value
		}
	}
	return environ
}

// endContainer ends the container as podman stop would, and wants an end in order.
func (p *place) endContainer(t *testing.T) {
	t.Log(p.shell(t, p.repo, nil, "podman stop orders-bridge; buildah rmi eosbridge:local >/dev/null"))
}

// asKubernetes looks at what helm made of the chart, and runs the commands of the containers with the environment that
// Kubernetes would give them.
func (p *place) asKubernetes(t *testing.T, password bool) {
	rendered := filepath.Join(p.environ["WORK"], "rendered.yaml")
	t.Log(p.shell(t, p.repo, map[string]string{"PYTHONPATH": *kubernetes}, "python3 -m kubernetes_validate --strict --quiet -k 1.27 -k 1.37 '"+rendered+"'"))
	text, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	config, containers := parsePod(t, text)
	for _, c := range containers {
		environ := maps.Clone(config)
		for _, v := range c.Env {
			environ[v.Name] = cmp.Or(v.Value, map[string]string{"metadata.name": "orders-eosbridge-0"}[v.From.Field.Path])
		}
		if password { // a Secret, mounted as a file
			file := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(file, []byte("not-secret"), 0o400); err != nil {
				t.Fatal(err)
			}
			if environ["KAFKA_SASL_PASSWORD_FILE"] == "" || environ["KAFKA_SASL_MECHANISM"] != "SCRAM-SHA-512" {
				t.Fatalf("of the Secret nothing is rendered: %v", environ)
			}
			environ["KAFKA_SASL_PASSWORD_FILE"] = file
			maps.Copy(environ, p.guarded())
		}
		environ["BRIDGE_HTTP_ADDR"] = "127.0.0.1:0" // of a pod of its own any
		t.Logf("container %s: eosbridge %s, in %v", c.Name, strings.Join(c.Args, " "), environ)
		program := filepath.Join(p.repo, "bin/eosbridge")
		if c.Name == "check" {
			p.shell(t, p.repo, environ, program+" "+strings.Join(c.Args, " "))
		} else {
			p.starts(t, environ, append([]string{program}, c.Args...))
		}
	}
	if len(containers) != 2 {
		t.Errorf("%d containers, want check and eosbridge", len(containers))
	}
}

// container is what of a container of the StatefulSet is looked at.
type container struct {
	Name string
	Args []string
	Env  []struct {
		Name, Value string
		From        struct {
			Field struct {
				Path string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
}

// parsePod answers the ConfigMap and the containers of what helm has rendered, the init container first.
func parsePod(t *testing.T, text []byte) (config map[string]string, all []container) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o struct {
			Kind string
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct {
						Init       []container `yaml:"initContainers"`
						Containers []container
					}
				}
			}
		}
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return config, all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch o.Kind {
		case "ConfigMap":
			config = o.Data
		case "StatefulSet":
			all = append(o.Spec.Template.Spec.Init, o.Spec.Template.Spec.Containers...)
		}
	}
}
