package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// shared holds the clusters of this test process, one per version.
var shared struct {
	sync.Mutex
	clusters map[string]*Cluster
}

// Require skips the test if real Kafka cannot run here, with the reason; with
// CI=true it fails instead, so that a green build has really seen a broker.
func Require(t testing.TB) {
	t.Helper()
	end := t.Skipf
	if os.Getenv("CI") == "true" {
		end = t.Fatalf
	}
	for _, tool := range []struct{ name, remedy string }{
		{"java", "install Java 17 or later (Debian: openjdk-17-jre-headless)"},
		{"mvn", "install Apache Maven (Debian: maven)"},
	} {
		if _, err := exec.LookPath(tool.name); err == nil {
			continue
		}
		end("real Kafka cannot run: no %s in PATH: %s", tool.name, tool.remedy)
	}
}

// Start starts a cluster of the test's own and closes it when the test ends.
// If the test failed, the ends of the brokers' logs are printed.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	Require(t)
	c, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.tails())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Shared returns the one-node cluster of a version that all tests of this
// process share. It is started at first use and must be stopped by TestMain,
// with Main or StopShared. A test must not kill it.
func Shared(t testing.TB, version string) *Cluster {
	t.Helper()
	Require(t)
	shared.Lock()
	defer shared.Unlock()
	if c := shared.clusters[version]; c != nil {
		return c
	}
	c, err := Run(t.Context(), Options{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	if shared.clusters == nil {
		shared.clusters = make(map[string]*Cluster)
	}
	shared.clusters[version] = c
	return c
}

// StopShared closes the clusters Shared has started.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	for version, c := range shared.clusters {
		if err := c.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "close the shared Apache Kafka %s: %v\n", version, err)
		}
	}
	shared.clusters = nil
}

// Main runs the tests and then StopShared; it returns the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(kafka.Main(m)) }
func Main(m *testing.M) int {
	defer StopShared()
	return m.Run()
}

// Topic creates a topic with a name of its own, replicated to all nodes, and
// waits until all its partitions have a leader. Each config is "key=value".
func (c *Cluster) Topic(t testing.TB, partitions int, configs ...string) string {
	t.Helper()
	name := fmt.Sprintf("%s-%08x", topicStem(t.Name()), rand.Uint32())
	c.CreateTopic(t, name, partitions, configs...)
	return name
}

// CreateTopic is Topic with a given name.
func (c *Cluster) CreateTopic(t testing.TB, name string, partitions int, configs ...string) {
	t.Helper()
	values := make(map[string]*string, len(configs))
	for _, config := range configs {
		key, value, ok := strings.Cut(config, "=")
		if !ok {
			t.Fatalf("topic config %q: want key=value", config)
		}
		values[key] = &value
	}
	adm := c.Admin(t)
	resp, err := adm.CreateTopic(t.Context(), int32(partitions), int16(len(c.nodes)), values, name)
	if err != nil {
		t.Fatalf("create topic %s: %v: %s", name, err, resp.ErrMessage)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		// Each broker learns of the topic in its own time: ask them all.
		err := c.everywhere(ctx, name, partitions)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("create topic %s: %v", name, err)
		}
	}
}

func (c *Cluster) everywhere(ctx context.Context, topic string, partitions int) error {
	for _, n := range c.nodes {
		if n.Pid() == 0 {
			continue
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr))
		if err != nil {
			return err
		}
		meta, err := kadm.NewClient(cl).Metadata(ctx, topic)
		cl.Close()
		if err != nil {
			return err
		}
		if got := len(meta.Topics[topic].Partitions); got != partitions {
			return fmt.Errorf("node %d knows %d of %d partitions", n.id, got, partitions)
		}
		if err := leaders(meta.Topics); err != nil {
			return fmt.Errorf("node %d: %w", n.id, err)
		}
	}
	return nil
}

// Client returns a client that is closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Admin returns an admin client that is closed when the test ends.
func (c *Cluster) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(c.Client(t))
}

// topicStem makes a test's name fit for a topic's: at most 100 characters of
// Kafka's alphabet, without the dot and the underscore, which collide in
// metrics.
func topicStem(test string) string {
	stem := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '-'
	}, test)
	return stem[:min(len(stem), 100)]
}
