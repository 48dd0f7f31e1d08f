package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout bounds a graceful stop; a node that takes longer is killed.
const stopTimeout = 30 * time.Second

// Node is one KRaft node, broker and controller in one process. Its methods
// may be called from any goroutine.
type Node struct {
	cluster    *Cluster
	id         int
	addr       string   // of the broker's listener
	controller string   // of the controller's listener
	guarded    string   // of the listener for Options.Users
	further    []string // of Options.Listeners
	dir        string

	mu   sync.Mutex
	proc *process // the last one launched; nil before the first
}

// ID returns the node id, from 1 on.
func (n *Node) ID() int { return n.id }

// Addr returns host:port of the broker.
func (n *Node) Addr() string { return n.addr }

// Dir returns the node's own folder, which is its working directory and holds
// its properties, its log and its data.
func (n *Node) Dir() string { return n.dir }

// LogPath returns the file that holds what the node printed (warnings and
// errors, of all its starts).
func (n *Node) LogPath() string { return filepath.Join(n.dir, "kafka.log") }

// Pid returns the process id, 0 if the node is not running.
func (n *Node) Pid() int {
	if p := n.process(); p != nil && p.alive() {
		return p.pid
	}
	return 0
}

// Kill ends the node with SIGKILL, as a crash does, and waits until it is
// gone. A node that does not run is no error.
func (n *Node) Kill() error {
	p := n.process()
	if p == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill node %d: %w", n.id, err)
	}
	<-p.done
	return nil
}

// Stop ends the node with SIGTERM (Kafka's controlled shutdown) and waits
// until it is gone; after 30 s it is killed, which is an error.
func (n *Node) Stop() error { return n.stop(stopTimeout) }

func (n *Node) stop(patience time.Duration) error {
	p := n.process()
	if p == nil {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop node %d: %w", n.id, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("stop node %d: still running %v after SIGTERM, killed", n.id, patience), n.Kill())
	}
}

// Pause freezes the node with SIGSTOP: connections stay open and nothing is
// answered. Resume lets it go on.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume lets a paused node go on.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(sig syscall.Signal) error {
	p := n.process()
	if p == nil || !p.alive() {
		return fmt.Errorf("signal %v to node %d: it does not run", sig, n.id)
	}
	return p.signal(sig)
}

// Start launches a node that was killed or stopped, on its old port and its
// old data, and waits until it is a broker again. In a cluster of one node it
// also waits until every partition has a leader.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Launch(); err != nil {
		return err
	}
	return n.await(ctx)
}

// Launch is Start without the wait.
func (n *Node) Launch() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil && n.proc.alive() {
		return fmt.Errorf("start node %d: it runs already, pid %d", n.id, n.proc.pid)
	}
	log, err := os.OpenFile(n.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := n.cluster.java(n.cluster.options.JVM, "kafka.Kafka", n.propertiesPath())
	cmd.Dir = n.dir
	cmd.Stdout, cmd.Stderr = log, log
	p, err := launch(cmd)
	if cerr := log.Close(); err == nil { // the child has its own descriptor
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	n.proc = p
	return nil
}

func (n *Node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

func (n *Node) propertiesPath() string { return filepath.Join(n.dir, "server.properties") }

// format writes the node's properties and its empty metadata log.
func (n *Node) format(ctx context.Context) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	p := n.properties()
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", key, p[key])
	}
	if err := os.WriteFile(n.propertiesPath(), b.Bytes(), 0o644); err != nil {
		return err
	}
	args := []string{"format", "-t", n.cluster.id, "-c", n.propertiesPath()}
	for _, feature := range slices.Sorted(maps.Keys(n.cluster.options.Features)) {
		args = append(args, "--feature", fmt.Sprintf("%s=%d", feature, n.cluster.options.Features[feature]))
	}
	cmd := n.cluster.java(nil, "kafka.tools.StorageTool", args...)
	cmd.Dir = n.dir // as when it runs: paths may be relative
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	proc, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("format node %d: %w", n.id, err)
	}
	select {
	case <-proc.done:
	case <-ctx.Done():
		err := proc.signal(syscall.SIGKILL)
		<-proc.done
		return errors.Join(fmt.Errorf("format node %d: %w", n.id, context.Cause(ctx)), err)
	}
	if proc.err != nil {
		return fmt.Errorf("format node %d: %w\n%s", n.id, proc.err, strings.TrimSpace(out.String()))
	}
	return nil
}

// properties are Kafka's, save what makes a test quick or small; the options'
// own come last.
func (n *Node) properties() map[string]string {
	c := n.cluster
	voters := make([]string, len(c.nodes))
	for i, v := range c.nodes {
		voters[i] = fmt.Sprintf("%d@%s", v.id, v.controller)
	}
	advertised := n.addr
	if c.options.Advertised != nil {
		advertised = c.options.Advertised(n.addr)
	}
	replicas, inSync := "1", "1"
	if len(c.nodes) > 1 {
		replicas, inSync = strconv.Itoa(len(c.nodes)), strconv.Itoa(len(c.nodes)-1)
	}
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(n.id),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"listeners":                      "PLAINTEXT://" + n.addr + ",CONTROLLER://" + n.controller,
		"advertised.listeners":           "PLAINTEXT://" + advertised,
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "PLAINTEXT",
		"log.dirs":                       filepath.Join(n.dir, "data"),
		"auto.create.topics.enable":      "false",

		"default.replication.factor":               replicas,
		"min.insync.replicas":                      inSync,
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            inSync,
		// 50 each by default: creating and loading them is most of a start.
		"offsets.topic.num.partitions":         "4",
		"transaction.state.log.num.partitions": "4",

		// No wait for more members at the first join; short session timeouts
		// may be asked for.
		"group.initial.rebalance.delay.ms": "0",
		"group.min.session.timeout.ms":     "500",
		// Transactions are timed out on a grid of 10 s by default.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		// A killed broker may register again only once its old session is over
		// (9 s by default).
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
		// 128 MiB by default, of a heap of 768.
		"log.cleaner.dedupe.buffer.size": "16777216",
		// The cleaner rests for 15 s by default.
		"log.cleaner.backoff.ms": "500",
	}
	if len(c.options.Users) > 0 {
		n.guard(p)
	}
	n.listen(p)
	maps.Copy(p, c.options.Properties)
	if c.options.PerNode != nil {
		maps.Copy(p, c.options.PerNode(n.id))
	}
	return p
}

// guard adds the listener on which clients have to say who they are, and the authorizer.
func (n *Node) guard(p map[string]string) {
	jaas := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, user := range slices.Sorted(maps.Keys(n.cluster.options.Users)) {
		jaas += fmt.Sprintf(" user_%s=%q", user, n.cluster.options.Users[user])
	}
	p["listeners"] += ",GUARDED://" + n.guarded
	p["advertised.listeners"] += ",GUARDED://" + n.guarded
	p["listener.security.protocol.map"] += ",GUARDED:SASL_PLAINTEXT"
	p["listener.name.guarded.sasl.enabled.mechanisms"] = "PLAIN"
	p["listener.name.guarded.plain.sasl.jaas.config"] = jaas + ";"
	p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	p["super.users"] = "User:ANONYMOUS" // brokers, controllers and the test itself
}

// listen adds the further listeners.
func (n *Node) listen(p map[string]string) {
	for i, l := range n.cluster.options.Listeners {
		advertised := n.further[i]
		if l.Advertised != nil {
			advertised = l.Advertised(advertised)
		}
		p["listeners"] += "," + l.Name + "://" + n.further[i]
		p["advertised.listeners"] += "," + l.Name + "://" + advertised
		p["listener.security.protocol.map"] += "," + l.Name + ":" + l.Protocol
		for key, value := range l.Properties {
			p["listener.name."+strings.ToLower(l.Name)+"."+key] = value
		}
	}
}

// tail returns the end of the node's log for an error message.
func (n *Node) tail() string {
	const most = 4 << 10
	f, err := os.Open(n.LogPath())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, end-most), io.SeekStart)
		if err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// java returns the command that runs a main class of Kafka. Later flags win,
// so the ones given override the first ones.
func (c *Cluster) java(flags []string, class string, args ...string) *exec.Cmd {
	all := []string{
		"-Xms256m", "-Xmx768m",
		// One small process among others on a few cores: the cheap collector,
		// and a compiler that is quick rather than thorough (measured on 4.4.0:
		// port open after 1.3 s instead of 1.8 s).
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if c.archive != "" {
		all = append(all, "-XX:SharedArchiveFile="+c.archive)
	}
	all = append(all, flags...)
	all = append(all, "-cp", filepath.Join(c.jars, "*"), class)
	all = append(all, args...)
	return exec.Command("java", all...)
}
