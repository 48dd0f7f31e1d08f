package kafka_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/eosbridge/eosbridge/test/kafka"
)

func TestMain(m *testing.M) { os.Exit(kafka.Main(m)) }

func TestVersionsAndFeatures(t *testing.T) {
	for _, row := range []struct {
		version string
		level   int16
		known   bool
	}{
		{kafka.V44, 2, true},
		{kafka.V39, 0, false},
	} {
		t.Run(row.version, func(t *testing.T) {
			c := kafka.Shared(t, row.version)
			features, err := c.Features(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			level, known := features["transaction.version"]
			if level != row.level || known != row.known {
				t.Errorf("transaction.version = %d, known %v; want %d, %v (all: %v)", level, known, row.level, row.known, features)
			}
			if again := kafka.Shared(t, row.version); again != c {
				t.Error("the second call of Shared started another cluster")
			}
			roundTrip(t, c)
		})
	}
}

func TestFeatureAsked(t *testing.T) {
	t.Parallel() // mostly waits
	c := kafka.Start(t, kafka.Options{Features: map[string]int16{"transaction.version": 1}})
	features, err := c.Features(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := features["transaction.version"]; got != 1 {
		t.Errorf("transaction.version = %d, want 1", got)
	}
}

// TestKillKeepsData is what tests of broker crashes rest on: the data, the
// address and the coordinators are there again.
func TestKillKeepsData(t *testing.T) {
	t.Parallel() // mostly waits
	c := kafka.Start(t, kafka.Options{})
	topic := c.Topic(t, 1)
	produce(t, c.Client(t), topic, 100)
	n := c.Node(0)
	for i, end := range []func() error{n.Kill, n.Stop} {
		before := n.Pid()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if pid := n.Pid(); pid != 0 {
			t.Fatalf("pid %d after the end", pid)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pid := n.Pid(); pid == 0 || pid == before {
			t.Fatalf("pid %d after the restart, %d before", pid, before)
		}
		produce(t, c.Client(t), topic, 10)
		consume(t, c, topic, 100+10*(i+1))
	}
	if err := n.Launch(); err == nil {
		t.Error("a running node could be launched again")
	}
}

func TestThreeNodesLoseOne(t *testing.T) {
	t.Parallel() // mostly waits
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = "127.0.0.2" // elsewhere it does not exist
	}
	c := kafka.Start(t, kafka.Options{Nodes: 3, Host: host, PerNode: func(id int) map[string]string {
		return map[string]string{"log.dirs": fmt.Sprintf("data-of-%d", id)}
	}})
	if got := strings.Count(c.Bootstrap(), host+":"); got != 3 {
		t.Fatalf("%d addresses of %s in %s", got, host, c.Bootstrap())
	}
	for _, n := range c.Nodes() {
		if _, err := os.Stat(filepath.Join(n.Dir(), fmt.Sprintf("data-of-%d", n.ID()), "meta.properties")); err != nil {
			t.Error(err)
		}
	}
	topic := c.Topic(t, 3)
	if err := c.Node(0).Kill(); err != nil {
		t.Fatal(err)
	}
	produce(t, c.Client(t), topic, 30)
	consume(t, c, topic, 30)
	if err := c.Node(0).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := c.NodeByID(1); n != c.Node(0) {
		t.Errorf("NodeByID(1) = %v", n)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel() // mostly waits
	kafka.Require(t)
	if _, err := kafka.Run(t.Context(), kafka.Options{Nodes: 2}); err == nil {
		t.Error("two nodes were accepted")
	}
	// A start that fails names the reason from the broker's own log.
	_, err := kafka.Run(t.Context(), kafka.Options{Properties: map[string]string{"num.io.threads": "-1"}})
	if err == nil || !strings.Contains(err.Error(), "num.io.threads") {
		t.Errorf("a bad property: %v", err)
	}
}

// TestCommandDiesWhole runs what `make kafka` runs and kills it: the broker
// must not outlive it, and the next cluster removes the data it left.
func TestCommandDiesWhole(t *testing.T) {
	t.Parallel() // mostly waits
	kafka.Require(t)
	if runtime.GOOS != "linux" {
		t.Log("no parent-death signal on this system: only a graceful end is tested")
	}
	bin := filepath.Join(t.TempDir(), "kafka")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/kafka").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if sig == syscall.SIGKILL && runtime.GOOS != "linux" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), bin)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		if !lines.Scan() {
			t.Fatalf("no address printed: %v", lines.Err())
		}
		addr := lines.Text()
		if err := dial(addr); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); (err == nil) != (sig == syscall.SIGTERM) {
			t.Errorf("%v: ended with %v", sig, err)
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		deadline := time.Now().Add(20 * time.Second)
		for dial(addr) == nil {
			if time.Now().After(deadline) {
				t.Fatalf("%v: the broker at %s outlived the command", sig, addr)
			}
			<-tick.C
		}
	}
}

func dial(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

func roundTrip(t *testing.T, c *kafka.Cluster) {
	t.Helper()
	topic := c.Topic(t, 2, "max.message.bytes=2000000")
	produce(t, c.Client(t), topic, 20)
	consume(t, c, topic, 20)
}

func produce(t *testing.T, cl *kgo.Client, topic string, n int) {
	t.Helper()
	for i := range n {
		cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce to %s: %v", topic, err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, c *kafka.Cluster, topic string, want int) {
	t.Helper()
	cl := c.Client(t, kgo.ConsumeTopics(topic))
	for got := 0; got < want; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", got, want, err)
		}
		got += fetches.NumRecords()
	}
}

func TestUsers(t *testing.T) {
	t.Parallel() // mostly waits
	c := kafka.Start(t, kafka.Options{Users: map[string]string{"bridge": "a b=c"}})
	topic := c.Topic(t, 1)
	as := func(password string) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Guarded()), kgo.RequestRetries(0), kgo.SASL(plain.Auth{User: "bridge", Pass: password}.AsMechanism()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		_, err = kadm.NewClient(cl).Metadata(t.Context(), topic)
		return err
	}
	if err := as("a b=c"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("without an ACL: %v", err)
	}
	acl := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).Allow("User:bridge").AllowHosts("*")
	if _, err := c.Admin(t).CreateACLs(t.Context(), acl); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(time.Minute) // the broker's authorizer follows the controller
	err := as("a b=c")
	for err != nil && time.Now().Before(limit) {
		err = as("a b=c")
	}
	if err != nil {
		t.Errorf("with an ACL: %v", err)
	}
	if err := as("wrong"); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("with a wrong password: %v", err)
	}
}
