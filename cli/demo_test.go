package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/config"
)

// played runs a small demo with a stand-in bridge and returns what it printed.
func played(t *testing.T, kind string, options demoOptions) (string, error) {
	t.Helper()
	var out bytes.Buffer
	d := demo{options: options, out: &out, err: t.Output(), temp: t.TempDir(), abort: t.Context(), executable: standIn(kind)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	err := d.play(ctx)
	t.Logf("%v\n%s", err, out.String())
	if !options.keep {
		empty(t, d.temp)
	}
	return out.String(), err
}

// empty fails the test if the demo left something in its temporary folder.
func empty(t *testing.T, temp string) {
	t.Helper()
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func number(t *testing.T, out, name string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^  ` + name + ` +([\d,]+)\b`).FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("the report has no %q", name)
	}
	return match[1]
}

func TestDemoExact(t *testing.T) {
	t.Parallel()
	out, err := played(t, "exact", demoOptions{records: 3001, kills: 3, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"records in": "3,001", "records out": "3,001", "duplicated": "0", "lost": "0",
		"out of order": "0", "altered": "0", "kills": "3", "transactions left open": "0",
	} {
		if got := number(t, out, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if number(t, out, "epochs committed") == "0" {
		t.Error("no epoch committed")
	}
	if !strings.HasSuffix(out, "\nEXACTLY ONCE: yes\n") {
		t.Error("the last line is not the verdict")
	}
}

func TestDemoFindsDuplicates(t *testing.T) {
	t.Parallel()
	out, err := played(t, "doubling", demoOptions{records: 3000, kills: 3, seed: 1})
	if !errors.Is(err, notExactError{}) {
		t.Fatalf("got %v, want notExactError", err)
	}
	if number(t, out, "duplicated") == "0" || number(t, out, "lost") != "0" || !strings.HasSuffix(out, "\nEXACTLY ONCE: no\n") {
		t.Error("the duplicates are not reported")
	}
}

func TestDemoFindsLoss(t *testing.T) {
	t.Parallel()
	out, err := played(t, "losing", demoOptions{records: 3000, seed: 1})
	if !errors.Is(err, notExactError{}) {
		t.Fatalf("got %v, want notExactError", err)
	}
	if number(t, out, "lost") != "1" || number(t, out, "records out") != "2,999" {
		t.Error("the loss is not reported")
	}
}

func TestDemoBridgeFails(t *testing.T) {
	t.Parallel()
	out, err := played(t, "failing", demoOptions{records: 3000, seed: 1})
	var failed *demoBridgeError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a demoBridgeError", err)
	}
	for _, want := range []string{"ended by itself", "exit status 78", "BRIDGE_NONSENSE", `"state":"running"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q", want)
		}
	}
	if strings.Contains(err.Error(), "DEBUG") {
		t.Error("the error repeats debug lines")
	}
	if strings.Contains(out, "EXACTLY") {
		t.Error("a verdict without a finished run")
	}
}

func TestDemoBrokerFails(t *testing.T) {
	t.Parallel()
	_, err := played(t, "brokerless", demoOptions{records: 10, seed: 1})
	if err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("got %v", err)
	}
}

// A second Ctrl-C is not needed: the first ends everything.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted by the test")
	interrupt := func() { cancel(interrupted) }
	first := &firstLines{until: regexp.MustCompile(`(?m)^ +[\d.]+ s .* out +[1-9]`), then: interrupt}
	d := demo{options: demoOptions{records: 400000, kills: 20, seed: 1}, out: first, err: t.Output(), temp: t.TempDir(), abort: t.Context(), executable: standIn("exact")}
	done := make(chan error, 1)
	go func() { done <- d.play(ctx) }()
	<-ctx.Done()
	begin := time.Now()
	if err := <-done; !errors.Is(err, interrupted) {
		t.Errorf("got %v, want the cause of the interrupt", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v to end", took)
	}
	empty(t, d.temp)
}

// firstLines calls then once what was written matches until.
type firstLines struct {
	text  bytes.Buffer
	until *regexp.Regexp
	then  func()
}

func (f *firstLines) Write(p []byte) (int, error) {
	_, _ = f.text.Write(p)
	if f.until.Match(f.text.Bytes()) {
		f.then()
	}
	return len(p), nil
}

func TestDemoOnOwnCluster(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) { t.Parallel(); demoOnOwnCluster(t, keep) })
	}
}

func demoOnOwnCluster(t *testing.T, keep bool) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	address := strings.Join(cluster.ListenAddrs(), ",")
	out, err := played(t, "exact", demoOptions{kafka: address, records: 1000, kills: 1, seed: 1, keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out, "\nEXACTLY ONCE: yes\n") {
		t.Error("the last line is not the verdict")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := kadm.NewClient(client).ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, wantGroups, word := 1, 0, "deleted topics"
	if keep {
		want, wantGroups, word = 3, 1, "kept topics"
	}
	if len(topics) != want || len(groups) != wantGroups || !strings.Contains(out, word) {
		t.Errorf("keep %v: topics %v, groups %v", keep, topics.Names(), groups.Groups())
	}
}

func TestDemoClusterAway(t *testing.T) {
	t.Parallel()
	d := demo{options: demoOptions{kafka: "127.0.0.1:1", records: 1000}, out: t.Output(), err: t.Output(), abort: t.Context(), executable: standIn("exact")}
	err := d.play(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

// The parent's death closes the broker's standard input.
func TestDemoBrokerEndsWithStdin(t *testing.T) {
	t.Parallel()
	broker, err := startDemoBroker(t.Context(), standIn("exact")("demo", demoBrokerWord, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-broker.exited:
	case <-time.After(10 * time.Second):
		t.Error("the broker outlived its standard input")
	}
	broker.stop()
	if !broker.cmd.ProcessState.Success() {
		t.Errorf("%v: %s", broker.cmd.ProcessState, broker.stderr)
	}
}

func TestDemoBridgeStops(t *testing.T) {
	t.Parallel()
	committed := make(chan struct{})
	bridge, err := startDemoBridge(standIn("stubborn")("run"), func() { close(committed) })
	if err != nil {
		t.Fatal(err)
	}
	<-committed // its signals are caught now
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = bridge.stop(short)
	if err == nil || !strings.Contains(err.Error(), "did not stop in time") {
		t.Errorf("got %v", err)
	}
	if err := bridge.kill(); err == nil {
		t.Error("a bridge that was gone let itself be killed")
	}
}

func TestDemoBridgeMissing(t *testing.T) {
	t.Parallel()
	if _, err := startDemoBridge(exec.Command("/nowhere/eosbridge"), func() {}); err == nil {
		t.Error("started a program that does not exist")
	}
}

func TestParseDemo(t *testing.T) {
	t.Parallel()
	o, err := parseDemo(nil)
	if err != nil || o.records != 40000 || o.kills != 14 || o.kafka != "" || o.keep {
		t.Errorf("by default %+v, %v", o, err)
	}
	o, err = parseDemo([]string{"--kafka", "a:1,b:2", "--records=7", "--kills", "0", "--seed", "9", "--keep"})
	if want := (demoOptions{kafka: "a:1,b:2", records: 7, seed: 9, keep: true}); err != nil || o != want {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
	for _, args := range []string{
		"--records 0", "--records 10000001", "--records many", "--kills -1", "--kills 1001", "--seed -1",
		"--kafka localhost", "--kafka :9092", "--kafka a:1,", "--kafka a:kafka", "--pace 3", "now", "broker", "broker a b",
	} {
		if _, err := parseDemo(strings.Fields(args)); exitCode(err) != exitUsage {
			t.Errorf("%s: %v is no usage error", args, err)
		}
	}
}

func TestDemoExitStatus(t *testing.T) {
	t.Parallel()
	if code := exitCode(notExactError{}); code != exitFailure {
		t.Errorf("%d for a fault, want %d", code, exitFailure)
	}
	// The bridge's own status is the bridge's.
	if code := exitCode(&demoBridgeError{What: "ended by itself with exit status 78"}); code != exitFailure {
		t.Errorf("%d for a failed bridge, want %d", code, exitFailure)
	}
}

func TestDemoEnvironIsClean(t *testing.T) {
	t.Parallel()
	users := map[string]string{
		"PATH": "/bin", "BRIDGE_TRANSFORM": "sample(1%)", "BRIDGE_OUTPUT_TOPIC": "orders", "LOG_LEVEL": "error",
		"KAFKA_BOOTSTRAP_SERVERS": "production:9092", "KAFKA_CLIENT_ID": "orders", "TARGET_KAFKA_RACK": "b",
		"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256", "AWS_PROFILE": "demo",
	}
	names := demoNames{input: "i", output: "o", group: "g"}
	environ := demoEnviron("a:1", names, demoAccess(users))
	want := map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "a:1", "BRIDGE_INPUT_TOPICS": "i", "BRIDGE_OUTPUT_TOPIC": "o", "BRIDGE_GROUP_ID": "g",
		"BRIDGE_INSTANCE_ID": "demo", "BRIDGE_HTTP_ADDR": "off", "LOG_LEVEL": "debug", "LOG_FORMAT": "json",
		"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256", "AWS_PROFILE": "demo",
	}
	if !maps.Equal(environ, want) {
		t.Errorf("got %v, want %v", environ, want)
	}
	if len(users) != 10 || users["LOG_LEVEL"] != "error" {
		t.Error("the user's environment was altered")
	}
	// On the embedded broker, the same without a way in; both must be valid.
	if _, err := config.Load(demoEnviron("a:1", names, nil), ""); err != nil {
		t.Error(err)
	}
}

// A cluster that asks for a login, which the KAFKA_* variables give.
func TestDemoLogsIn(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "ada", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	names := newDemoNames()
	environ := demoEnviron(cluster.ListenAddrs()[0], names, map[string]string{
		"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
		"KAFKA_SASL_USERNAME": "ada", "KAFKA_SASL_PASSWORD": "secret",
	})
	logged, err := openDemoCluster(environ, names)
	if err != nil {
		t.Fatal(err)
	}
	defer logged.close()
	if err := logged.create(t.Context()); err != nil {
		t.Error(err)
	}
	if err := logged.remove(t.Context()); err != nil {
		t.Error(err)
	}
	delete(environ, "KAFKA_SASL_USERNAME")
	if _, err := openDemoCluster(environ, names); exitCode(err) != exitConfig {
		t.Errorf("got %v, want a configuration error", err)
	}
}
