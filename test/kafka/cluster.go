package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// The versions the product is proven on. V44 finalizes transaction.version 2,
// V39 has no such feature.
const (
	V44 = "4.4.0"
	V39 = "3.9.1"
)

// startTimeout bounds the start of a cluster, the fetch of the jars not
// included. A quiet machine needs 2 s, a loaded one may need a lot more.
const startTimeout = 2 * time.Minute

// Options say which cluster to start. The zero value is one node of V44.
type Options struct {
	// Version of Apache Kafka; V44 if empty.
	Version string
	// Nodes is 1 or 3; 0 means 1. Three nodes have replication factor 3 and
	// two in-sync replicas.
	Nodes int
	// Properties are added to each node's server.properties and win over ours.
	Properties map[string]string
	// PerNode, if set, gives further properties of the node with this id; they
	// win over all others. A relative path is below the node's own folder.
	PerNode func(id int) map[string]string
	// Host is the address of this machine that brokers listen on and are known
	// by; 127.0.0.1 if empty. Network namespaces need one that they can reach.
	Host string
	// Advertised, if set, gives the address that a broker which listens on addr is
	// known by, to clients and to itself: that of a proxy before it.
	Advertised func(addr string) string
	// Features are finalized when the nodes are formatted, e.g.
	// "transaction.version": 1. Those not named get the version's default.
	Features map[string]int16
	// Users, if set, have passwords by their names. Each node then has a second listener, on which clients say who they
	// are (SASL/PLAIN) and may do what ACLs permit them; see Guarded. The first one stays open, and whoever comes by it
	// is a super user.
	Users map[string]string
	// Listeners are further ones of each node, with a security of their own.
	Listeners []Listener
	// JVM flags are added and win, e.g. "-XX:TieredStopAtLevel=4" to measure
	// throughput.
	JVM []string
}

// Listener is one more listener of each node.
type Listener struct {
	// Name is in capital letters, as Kafka's own names are; see Cluster.At.
	Name string
	// Protocol is Kafka's: SSL, SASL_SSL or SASL_PLAINTEXT.
	Protocol string
	// Properties of this listener alone, without their prefix "listener.name.<name>.".
	Properties map[string]string
	// Advertised, if set, gives the address that clients are told, as Options.Advertised does.
	Advertised func(addr string) string
}

// Cluster is one to three running brokers. Its methods may be called from any
// goroutine.
type Cluster struct {
	options Options
	id      string
	dir     string       // everything of the cluster
	release func() error // removes dir
	jars    string
	archive string // of loaded classes; empty if there is none
	nodes   []*Node
}

// Run starts a cluster and waits until all its brokers answer and both
// coordinators can be found. The caller must Close it. The context bounds the
// start only; the cluster outlives it.
func Run(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = V44
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Host == "" {
		o.Host = loopback
	}
	if o.Nodes != 1 && o.Nodes != 3 {
		return nil, fmt.Errorf("%d Kafka nodes: only 1 or 3 are supported", o.Nodes)
	}
	jars, archive, err := Prepare(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	return run(ctx, o, jars, archive)
}

// Prepare does what the first start of a version does once: it fetches the
// jars and makes the archive of loaded classes ("" if java cannot).
func Prepare(ctx context.Context, version string) (jars, archive string, err error) {
	if jars, err = Fetch(ctx, version); err != nil {
		return "", "", err
	}
	archive, err = classArchive(ctx, jars)
	return jars, archive, err
}

func run(ctx context.Context, o Options, jars, archive string) (*Cluster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %v", startTimeout))
	defer cancel()
	dir, release, err := newFolder()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, id: newID(), dir: dir, release: release, jars: jars, archive: archive}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("start Apache Kafka %s: %w%s", o.Version, err, c.tails())
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	host := c.options.Host
	each := 3 + len(c.options.Listeners)
	ports, err := freePorts(host, each*c.options.Nodes)
	if err != nil {
		return err
	}
	for i := range c.options.Nodes {
		own := ports[each*i : each*(i+1)]
		n := &Node{
			cluster:    c,
			id:         i + 1,
			addr:       address(host, own[0]),
			controller: address(host, own[1]),
			guarded:    address(host, own[2]),
			dir:        filepath.Join(c.dir, fmt.Sprintf("node-%d", i+1)),
		}
		for _, port := range own[3:] {
			n.further = append(n.further, address(host, port))
		}
		c.nodes = append(c.nodes, n)
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		g.Go(func() error {
			if err := n.format(gctx); err != nil {
				return err
			}
			return n.Launch()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		g.Go(func() error { return n.await(gctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.awaitCoordinators(ctx)
}

// Bootstrap returns the brokers' addresses, separated by commas.
func (c *Cluster) Bootstrap() string { return strings.Join(c.seeds(), ",") }

// Guarded returns the addresses of the listeners for Options.Users, separated by commas.
func (c *Cluster) Guarded() string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.guarded
	}
	return strings.Join(addrs, ",")
}

// At returns the addresses of the listener of Options.Listeners with this name, separated by commas. They are those that it
// listens on, whatever is advertised.
func (c *Cluster) At(name string) string {
	var addrs []string
	for i, l := range c.options.Listeners {
		for _, n := range c.nodes {
			if l.Name == name {
				addrs = append(addrs, n.further[i])
			}
		}
	}
	return strings.Join(addrs, ",")
}

// Version returns the version of Apache Kafka that runs.
func (c *Cluster) Version() string { return c.options.Version }

// Node returns the i-th node, from 0 on.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*Node { return append([]*Node(nil), c.nodes...) }

// NodeByID returns the node with Kafka's node id, as a coordinator look-up
// gives it; nil if there is none.
func (c *Cluster) NodeByID(id int32) *Node {
	for _, n := range c.nodes {
		if n.id == int(id) {
			return n
		}
	}
	return nil
}

// Close kills all nodes and removes their data.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Kill())
	}
	return errors.Join(append(errs, c.release())...)
}

// Features returns the finalized features and their levels. A feature the
// version does not know is absent.
func (c *Cluster) Features(ctx context.Context) (map[string]int16, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "eosbridge-test", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	levels := make(map[string]int16, len(resp.FinalizedFeatures))
	for _, f := range resp.FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	return levels, nil
}

func (c *Cluster) seeds() []string {
	seeds := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		seeds[i] = n.addr
	}
	return seeds
}

// tails returns the ends of all logs, for an error message.
func (c *Cluster) tails() string {
	var b strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "\n--- end of the log of node %d\n%s", n.id, n.tail())
	}
	return b.String()
}

// await waits until the node has registered with the controller and answers.
func (n *Node) await(ctx context.Context) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(n.addr),
		kgo.DialTimeout(time.Second),
		kgo.RequestRetries(0),
		kgo.RequestTimeoutOverhead(2*time.Second),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	return n.poll(ctx, "become a broker", func() error {
		meta, err := kadm.NewClient(cl).Metadata(ctx)
		if err != nil {
			return err
		}
		registered := false
		for _, b := range meta.Brokers {
			registered = registered || int(b.NodeID) == n.id
		}
		if !registered {
			return errors.New("not in the metadata's list of brokers")
		}
		if len(n.cluster.nodes) == 1 {
			return leaders(meta.Topics)
		}
		return nil
	})
}

// awaitCoordinators makes the brokers create their two internal topics now,
// instead of during the first test.
func (c *Cluster) awaitCoordinators(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...), kgo.RequestRetries(0), kgo.RequestTimeoutOverhead(5*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	return c.nodes[0].poll(ctx, "find the coordinators", func() error {
		if err := adm.FindGroupCoordinators(ctx, "warm-up").Error(); err != nil {
			return err
		}
		if err := adm.FindTxnCoordinators(ctx, "warm-up").Error(); err != nil {
			return err
		}
		meta, err := adm.Metadata(ctx)
		if err != nil {
			return err
		}
		if len(meta.Brokers) < len(c.nodes) {
			return fmt.Errorf("%d of %d brokers in the metadata", len(meta.Brokers), len(c.nodes))
		}
		return leaders(meta.Topics)
	})
}

// poll calls done every 25 ms until it returns nil, the context ends or the
// node's process does.
func (n *Node) poll(ctx context.Context, what string, done func() error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	p := n.process()
	for {
		last := done()
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("node %d did not %s: it ended: %w", n.id, what, p.err)
		case <-ctx.Done():
			return fmt.Errorf("node %d did not %s: %w; last: %w", n.id, what, context.Cause(ctx), last)
		}
	}
}

// leaders returns an error that names the first partition without a leader.
func leaders(topics kadm.TopicDetails) error {
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		for _, p := range t.Partitions.Sorted() {
			if p.Err != nil {
				return fmt.Errorf("topic %s partition %d: %w", t.Topic, p.Partition, p.Err)
			}
			if p.Leader < 0 {
				return fmt.Errorf("topic %s partition %d: no leader", t.Topic, p.Partition)
			}
		}
	}
	return nil
}

// newID returns a cluster id in Kafka's form, 16 bytes in base64 for URLs.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the process
	b[0] &= 0x7f           // Kafka refuses ids that begin with a dash
	return base64.RawURLEncoding.EncodeToString(b[:])
}
