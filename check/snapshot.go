package check

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/topics"
)

// Problem is something wrong with the configuration itself.
type Problem struct{ Variable, Message string }

// Options is what the check needs to know of the bridge's configuration.
type Options struct {
	// Problems are what the configuration's own laws say. The check goes on with what is left.
	Problems []Problem
	// Unusable says that the configuration does not even say what to look at, and where: nothing else is.
	Unusable bool

	// Exposed are protections that the configuration gives up.
	Exposed []Problem

	Bootstrap []string
	// Principal is who we are to the brokers' authorizer, such as User:bridge; empty if only they know.
	Principal string
	// Secured says that a command of an administrator needs a file with credentials.
	Secured bool
	Client  []kgo.Opt // brokers, security, client id, logger

	Group, Instance, Prefix string
	Consumer                bool // group protocol "consumer" (KIP-848)
	Plan                    topics.Plan
	Identity                bool // records pass unchanged
	Transactional           bool // exactly-once
	Start                   offsets.Start

	EpochTimeout, TxnTimeout, SessionTimeout time.Duration

	// Timeout bounds the whole check.
	Timeout time.Duration
}

// Snapshot is what the cluster said, at one time. A map that could not be filled goes with an error.
type Snapshot struct {
	Options
	Now time.Time

	Seeds   []Contact // the bootstrap servers
	Brokers []Contact // as the cluster advertises them
	Reached bool      // somebody answered, and the cluster was asked

	Inputs   []string // topics that are read: those listed, or those that the regular expression selects
	Outputs  []string // topics that records of them may go to
	Left     []string // topics that the regular expression matches and that are our outputs
	Unlisted error    // why topics could not be listed
	Topics   map[string]Topic

	Broker Settings // of one broker, the same on all in a cluster that is looked after

	Group        Group
	Transactions Transactions
	Access       Access
}

// Contact is one attempt to talk to a broker.
type Contact struct {
	Address string
	Node    int32 // -1 for a bootstrap server
	Err     error
	Answer  *kmsg.ApiVersionsResponse
}

// Settings are the configuration of a topic or broker.
type Settings struct {
	Values map[string]string
	Err    error
}

// number reads a setting; false if it is not there.
func (s Settings) number(key string) (int64, bool) {
	n, err := strconv.ParseInt(s.Values[key], 10, 64)
	return n, err == nil
}

// duration reads a setting in milliseconds.
func (s Settings) duration(key string) (time.Duration, bool) {
	n, ok := s.number(key)
	return time.Duration(n) * time.Millisecond, ok
}

// Topic is one topic. Err is from looking it up: a topic that is missing, or hidden from us.
type Topic struct {
	Err        error
	Partitions []Partition // by number
	Operations []kmsg.ACLOperation
	Settings   Settings
}

// Partition is one of a topic's.
type Partition struct {
	Leader             int32
	Replicas, InSync   int
	Start, Stable, End int64 // of its log; -1 if not known
}

// replication is the smallest number of replicas and of in-sync ones, with the partition that has the latter.
func (t Topic) replication() (replicas, inSync, worst int) {
	for i, p := range t.Partitions {
		if i == 0 || p.InSync < inSync {
			inSync, worst = p.InSync, i
		}
		if i == 0 || p.Replicas < replicas {
			replicas = p.Replicas
		}
	}
	return replicas, inSync, worst
}

// Group is the consumer group. Both errors nil and no members: nobody is in it, or it does not exist.
type Group struct {
	Err          error
	Absent       bool   // no group of that name
	Consumer     bool   // of the consumer protocol
	ProtocolType string // "consumer" for readers of topics
	Assignor     string
	Members      []Member

	Positions    map[offsets.TopicPartition]int64
	PositionsErr error
}

// Member is one of the group's.
type Member struct {
	ID, Instance, Client, Host string // Instance is empty for a dynamic member
	Topics                     []string
}

// holder is the member with an instance id.
func (g Group) holder(instance string) (Member, bool) {
	i := slices.IndexFunc(g.Members, func(m Member) bool { return m.Instance == instance })
	if i < 0 {
		return Member{}, false
	}
	return g.Members[i], true
}

// Transactions are those under our prefix, and what is open on our topics.
type Transactions struct {
	Err  error
	Open []Transaction // not ended, under our prefix; ordered by id
	// Late are open transactions on partitions of ours that nobody owns any more.
	Late    []Late
	LateErr error
}

// Transaction is one that has begun and not ended.
type Transaction struct {
	ID         string
	State      string
	Timeout    time.Duration
	Age        time.Duration // by our clock; negative if the coordinator does not say
	Partitions map[string][]int32
	start      int64 // ms since 1970, the coordinator's clock
	// Moved says that a second look saw another transaction under the same id: its owner is alive.
	Moved bool
	// Ended says that a second look saw it ended.
	Ended bool
}

// Late is a transaction that is open on a partition, and that the coordinators do not tell of.
type Late struct {
	Partition     offsets.TopicPartition
	StartOffset   int64
	ProducerID    int64
	ProducerEpoch int16
	Age           time.Duration // since its last record's time
	// Proven says that the coordinator of its id, asked while it was open, does not have the partition in a transaction: it
	// never ends by itself. Else it may be one that we may not see.
	Proven bool
}

// Access is what was tried of permissions that cannot be read.
type Access struct {
	GroupRead error // of a heartbeat of nobody
	OwnID     error // of AddOffsetsToTxn under our own transactional id
	PrefixID  error // the same under the id of an instance that does not exist
	Skipped   bool  // nothing was tried, for there is no coordinator yet
}

// all are the topics that are ours, inputs first.
func (s *Snapshot) all() []string { return append(slices.Clone(s.Inputs), s.Outputs...) }

// there are those of the names that exist and may be seen.
func (s *Snapshot) there(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		t, looked := s.Topics[name]
		return !looked || t.Err != nil
	})
}

// widths are the numbers of partitions of the inputs, 0 of those that are missing or hidden: their outputs have to be
// there all the same.
func (s *Snapshot) widths() map[string]int {
	widths := map[string]int{}
	for _, name := range s.Inputs {
		widths[name] = len(s.Topics[name].Partitions)
	}
	return widths
}

// internal are the topics that groups and transactions live in.
func internal() []string { return []string{offsetsTopic, stateTopic} }

const (
	offsetsTopic = "__consumer_offsets"
	stateTopic   = "__transaction_state"
)

// keys gives a map's keys in order.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
