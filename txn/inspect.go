package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// InspectOptions say what to look at.
type InspectOptions struct {
	// Prefix is that of our transactional ids; Group holds their owners.
	Prefix, Group string
	// All adds the open transactions of other prefixes that touch none of the topics.
	All bool
	// Name asks for one transaction only: a transactional id as it is spelt, or the name of a hanging one.
	Name string
	// Topics chooses, of all topics of the cluster, those whose partitions are searched for open transactions.
	Topics func(all []string) []string
	// OlderThan is the age that a live owner lets no transaction reach: 2 × the epoch timeout.
	OlderThan time.Duration
}

// Inspection is what Inspect has seen. The names of its JSON form do not change.
type Inspection struct {
	Transactions []Transaction `json:"transactions"`
	// Longest is the largest transaction.max.timeout.ms of the brokers, in seconds.
	Longest float64 `json:"longest_timeout_seconds"`
	// Unseen is what could not be looked at, so that nobody takes it for absent.
	Unseen []Unseen `json:"not_visible"`
}

// Transaction is one transactional id and what is open under it, or one hanging transaction.
type Transaction struct {
	// Name is the transactional id, or topic/partition@offset of a transaction that none is known for.
	Name string `json:"name"`
	// ID is the producer's transactional id; empty if there is none, or none that we may see.
	ID       string  `json:"transactional_id"`
	Kind     Kind    `json:"kind"`
	State    string  `json:"state"`
	Instance string  `json:"instance,omitempty"`
	Owner    *Member `json:"owner,omitempty"`
	// Coordinator is the node of the id's coordinator, -1 if there is none.
	Coordinator   int32 `json:"coordinator"`
	ProducerID    int64 `json:"producer_id"`
	ProducerEpoch int16 `json:"producer_epoch"`
	// Started is in milliseconds since 1970, by the coordinator's clock; of a hanging one the time of its last record.
	Started int64 `json:"started_ms"`
	// Age and Timeout are in seconds; 0 if unknown or nothing is open.
	Age     float64 `json:"age_seconds"`
	Timeout float64 `json:"timeout_seconds"`
	// Partitions are those that it is open in.
	Partitions []HeldPartition `json:"partitions"`
	// Held is the number of offsets, over all partitions, that it keeps from read_committed readers.
	Held    int64  `json:"held"`
	Safe    bool   `json:"safe_to_abort"`
	Because string `json:"because"`
}

// Open reports whether there is a transaction that could be aborted.
func (t Transaction) Open() bool { return len(t.Partitions) > 0 || t.State == stateOngoing }

// HeldPartition is a partition with an open transaction. Offsets that could not be learnt are -1.
type HeldPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// First is the offset of the transaction's first record.
	First int64 `json:"first_offset"`
	// Stable is the last stable offset, up to which read_committed readers get, and End the high watermark.
	Stable int64 `json:"last_stable_offset"`
	End    int64 `json:"high_watermark"`
	// Held is End - First: what the transaction keeps back, alone or with others.
	Held int64 `json:"held"`

	coordinatorEpoch int32 // of the last marker that the producer got here, -1 if none
}

// Unseen is something that could not be looked at, why, and the command that would permit it, if it is that.
type Unseen struct {
	What    string `json:"what"`
	Because string `json:"because"`
	Grant   string `json:"grant,omitempty"`
}

// place is one partition.
type place struct {
	topic     string
	partition int32
}

// openProducer is one that has a transaction open in a partition.
type openProducer struct {
	place
	id               int64
	epoch            int16
	coordinatorEpoch int32
	first            int64
	last             int64 // timestamp of its last record, ms
}

// inspector is one run of Inspect, on one goroutine.
type inspector struct {
	adm *kadm.Client
	cl  *kgo.Client
	o   InspectOptions

	open      map[place][]openProducer
	byID      map[int64]string // producer id to transactional id
	complete  bool             // every transactional id is in the listing
	states    map[string]string
	described map[string]kadm.DescribedTransaction
	alive     map[string]Member
	blind     error
	longest   time.Duration
	ends      map[place]HeldPartition
	out       Inspection
}

// Inspect looks at the transactions of a pipeline and at those that are open in its topics, and judges each. It changes
// nothing. What the principal may not see is in Unseen, never taken for absent: an error is only that the brokers do
// not answer.
//
// The order matters. Partitions come before the listing, the listing before the members, and the members before the
// descriptions, so that an owner that comes back in between is seen alive, or its transaction young. A transaction
// that no coordinator lists is looked at in its partition once more at the end: it may just have ended.
func Inspect(ctx context.Context, adm *kadm.Client, cl *kgo.Client, o InspectOptions) (*Inspection, error) {
	i := &inspector{adm: adm, cl: cl, o: o, open: map[place][]openProducer{}, byID: map[int64]string{}, states: map[string]string{}}
	i.out.Transactions, i.out.Unseen = []Transaction{}, []Unseen{}
	all, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	searched := placesOf(all, o.Topics(all.Names()))
	i.look(ctx, searched)
	i.list(ctx)
	if i.alive, i.blind = LiveInstances(ctx, adm, o.Group); i.blind != nil {
		i.unseen("who is alive", i.blind, "Describe", "group", o.Group)
	}
	i.describe(ctx)
	i.findLongest(ctx, all)
	i.lookAtDescribed(ctx)
	strays := i.strays(ctx)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	i.measure(ctx, i.held())
	for name := range i.described {
		// The id of a stray producer was described only to judge that.
		if t := i.named(name); t.Open() || i.chosen(name) {
			i.add(t)
		}
	}
	for name, state := range i.states { // listed, and not to be described: better than nothing
		if _, ok := i.described[name]; !ok && i.chosen(name) {
			i.add(i.undescribed(name, state))
		}
	}
	for _, t := range strays {
		i.add(i.hold(t))
	}
	slices.SortFunc(i.out.Transactions, func(a, b Transaction) int { return cmp.Compare(a.Name, b.Name) })
	i.out.Longest = i.longest.Seconds()
	return &i.out, nil
}

func (i *inspector) add(t Transaction) {
	if i.o.Name == "" || i.o.Name == t.Name {
		i.out.Transactions = append(i.out.Transactions, t)
	}
}

func placesOf(all kadm.TopicDetails, topics []string) []place {
	var places []place
	for _, topic := range topics {
		for _, p := range all[topic].Partitions.Sorted() {
			places = append(places, place{topic, p.Partition})
		}
	}
	return places
}

// list asks all coordinators for the transactional ids that they know.
func (i *inspector) list(ctx context.Context) {
	listed, err := i.adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		i.unseen("some transactional ids", err, "Describe", "transactional-id", "*")
	}
	for _, t := range listed {
		i.states[t.TxnID] = t.State
		i.byID[t.ProducerID] = t.TxnID
	}
	i.complete = err == nil && i.seesAll(ctx)
}

// seesAll reports whether we may see every transactional id. Ids that we may not describe are missing from a listing
// without a word, so it asks for one that nobody has: that it does not exist is told only to those who may see all.
func (i *inspector) seesAll(ctx context.Context) bool {
	const nobody = "eosbridge asks whether it may see every id"
	described, err := i.adm.DescribeTransactions(ctx, nobody)
	if d, ok := described[nobody]; err == nil && ok {
		err = d.Err
	}
	if errors.Is(err, kerr.TransactionalIDNotFound) {
		return true
	}
	i.unseen("transactional ids of others", err, "Describe", "transactional-id", "*")
	return false
}

// chosen reports whether a listed id is to be described.
func (i *inspector) chosen(name string) bool {
	if i.o.Name != "" && name == i.o.Name {
		return true
	}
	if _, ours := ParseID(i.o.Prefix, name); ours {
		return true
	}
	state := i.states[name]
	return i.o.All && (state == stateOngoing || state == statePrepareAbort || state == statePrepareCommit || state == statePrepareEpochFence)
}

// describe asks the coordinators about the ids that are ours or asked for, and about those that have something open in
// the partitions looked at.
func (i *inspector) describe(ctx context.Context) {
	wanted := map[string]bool{}
	for name := range i.states {
		if i.chosen(name) {
			wanted[name] = true
		}
	}
	for _, open := range i.open {
		for _, p := range open {
			if name := i.byID[p.id]; name != "" {
				wanted[name] = true
			}
		}
	}
	i.described = map[string]kadm.DescribedTransaction{}
	if len(wanted) == 0 {
		return // kadm reads an empty list as every id of the cluster
	}
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	described, err := i.adm.DescribeTransactions(ctx, names...)
	if err != nil {
		i.unseen("some transactions", err, "Describe", "transactional-id", "*")
	}
	for name, d := range described {
		switch {
		case d.Err == nil:
			i.described[name] = d
		case errors.Is(d.Err, kerr.TransactionalIDNotFound): // expired since the listing
		default:
			i.unseen("transaction "+name, d.Err, "Describe", "transactional-id", name)
		}
	}
}

// findLongest learns the longest timeout that a transaction may have.
func (i *inspector) findLongest(ctx context.Context, all kadm.TopicDetails) {
	const kafkasDefault = 15 * time.Minute
	brokers := map[int32]bool{}
	for _, t := range all {
		for _, p := range t.Partitions {
			for _, replica := range p.Replicas {
				brokers[replica] = true
			}
		}
	}
	ids := make([]int32, 0, len(brokers))
	for id := range brokers {
		ids = append(ids, id)
	}
	configs, err := i.adm.DescribeBrokerConfigs(ctx, ids...)
	for _, c := range configs {
		err = cmp.Or(err, c.Err)
		for _, entry := range c.Configs {
			if ms, convErr := time.ParseDuration(entry.MaybeValue() + "ms"); entry.Key == "transaction.max.timeout.ms" && convErr == nil {
				i.longest = max(i.longest, ms)
			}
		}
	}
	if i.longest == 0 {
		i.longest = kafkasDefault
		i.unseen("the brokers' transaction.max.timeout.ms, taken as Kafka's default of 15m", err, "DescribeConfigs", "cluster", "")
	}
}

// named makes what is said about a described id.
func (i *inspector) named(name string) Transaction {
	d := i.described[name]
	id, ours := ParseID(i.o.Prefix, name)
	t := Transaction{
		Name: name, ID: name, State: d.State, Instance: id.Instance, Coordinator: d.Coordinator, Started: d.StartTimestamp,
		ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch, Timeout: (time.Duration(d.TimeoutMillis) * time.Millisecond).Seconds(),
		Partitions: []HeldPartition{},
	}
	age := ageOf(d.StartTimestamp, time.Now())
	if isOpen(d.State) {
		t.Age = max(0, age).Seconds()
		for _, topic := range d.Topics.Sorted() {
			for _, partition := range topic.Partitions {
				at := place{topic.Topic, partition}
				held := i.heldAt(at)
				for _, p := range i.open[at] {
					if p.id == d.ProducerID {
						held = held.from(p)
					}
				}
				t.Partitions = append(t.Partitions, held)
				t.Held += held.Held
			}
		}
	}
	if m, ok := i.alive[id.Instance]; ours && ok {
		t.Owner = &m
	}
	j := sight{
		state: d.State, ours: ours, instance: id.Instance, group: i.o.Group, owner: t.Owner, blind: i.blind,
		age: age, olderThan: i.o.OlderThan,
	}.judge()
	t.Kind, t.Safe, t.Because = j.kind, j.safe, j.because
	return t
}

// undescribed makes what is said about an id that is listed and could not be described.
func (i *inspector) undescribed(name, state string) Transaction {
	return Transaction{
		Name: name, ID: name, Kind: KindUnknown, State: state, Coordinator: -1, ProducerID: -1, ProducerEpoch: -1,
		Partitions: []HeldPartition{}, Because: "it could not be described",
	}
}

// isOpen reports whether an id in this state keeps partitions open.
func isOpen(state string) bool {
	switch state {
	case stateOngoing, statePrepareAbort, statePrepareCommit, statePrepareEpochFence:
		return true
	}
	return false
}

// unseen notes what could not be looked at. The command is only named if a permission would help.
func (i *inspector) unseen(what string, err error, operation, resource, name string) {
	u := Unseen{What: what, Because: fmt.Sprint(err)}
	if Denied(err) {
		u.Grant = Grant(operation, resource, name)
	}
	if !slices.Contains(i.out.Unseen, u) {
		i.out.Unseen = append(i.out.Unseen, u)
	}
}

// Grant is the command that permits an operation on a resource: topic, group, transactional-id, or cluster, which has
// no name.
func Grant(operation, resource, name string) string {
	on := "--" + resource
	if name != "" {
		on += " '" + name + "'"
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME --operation %s %s", operation, on)
}
