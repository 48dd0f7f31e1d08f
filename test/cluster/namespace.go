package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Direction is a way of packets between a namespace and the rest.
type Direction string

// Directions that a [Namespace] can lose.
const (
	ToBroker   Direction = "bridge to broker"
	FromBroker Direction = "broker to bridge"
	Both       Direction = "both ways"
)

// namePrefix marks our namespaces; the owner's process id follows.
const namePrefix = "eosbridge-"

// made counts this process's namespaces.
var made atomic.Int64

// Namespace is a network namespace that reaches this host at one address only,
// over a pair of virtual interfaces. Packets are dropped inside of it: the
// host's own firewall stays as it is.
type Namespace struct {
	name   string
	subnet int // which /30
}

// NewNamespace makes a namespace; Close it. Those whose owner died without
// closing them are removed.
func NewNamespace() (*Namespace, error) {
	if err := removeDead(); err != nil {
		return nil, err
	}
	n := &Namespace{
		name: fmt.Sprintf("%s%d-%d", namePrefix, os.Getpid(), made.Add(1)),
		// 198.18.0.0/15 is set aside for tests of networks (RFC 2544).
		subnet: rand.IntN(1 << 15),
	}
	outer := fmt.Sprintf("eb%d", n.subnet)
	if err := run("ip", "netns", "add", n.name); err != nil {
		return nil, err
	}
	for _, line := range []string{
		"ip link add " + outer + " type veth peer name inner netns " + n.name,
		"ip addr add " + n.Host() + "/30 dev " + outer,
		"ip link set " + outer + " up",
		"ip -n " + n.name + " addr add " + n.address(2) + "/30 dev inner",
		"ip -n " + n.name + " link set inner up",
		"ip -n " + n.name + " link set lo up",
	} {
		if err := run(strings.Fields(line)...); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// Host is the address of this host that processes in the namespace reach.
func (n *Namespace) Host() string { return n.address(1) }

func (n *Namespace) address(host int) string {
	at := n.subnet<<2 + host
	return fmt.Sprintf("198.%d.%d.%d", 18+at>>16, at>>8&0xff, at&0xff)
}

// Command is the command line that runs another one in the namespace. Signals
// to its process reach that one: ip becomes it.
func (n *Namespace) Command(args ...string) []string {
	return append([]string{"ip", "netns", "exec", n.name}, args...)
}

// Cut drops all packets of TCP in this direction between the namespace and the
// address (host:port), without an answer, as a broken network does.
func (n *Namespace) Cut(d Direction, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("cut %s: %w", d, err)
	}
	if d != FromBroker {
		err = n.drop("OUTPUT -d " + host + " --dport " + port)
	}
	if d != ToBroker {
		err = errors.Join(err, n.drop("INPUT -s "+host+" --sport "+port))
	}
	return err
}

func (n *Namespace) drop(what string) error {
	chain, match, _ := strings.Cut(what, " ")
	line := "iptables -w -A " + chain + " -p tcp " + match + " -j DROP"
	return run(n.Command(strings.Fields(line)...)...)
}

// Heal lets all packets through again.
func (n *Namespace) Heal() error { return run(n.Command("iptables", "-w", "-F")...) }

// Close removes the namespace with its interfaces and its firewall. Processes in
// it must have ended.
func (n *Namespace) Close() error { return run("ip", "netns", "del", n.name) }

// removeDead removes the namespaces of owners that are gone.
func removeDead() error {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, namePrefix)
		if !ours {
			continue
		}
		text, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(text)
		if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if err := run("ip", "netns", "del", name); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command that prints nothing when it succeeds.
func run(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
