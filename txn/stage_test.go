package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// stage plays a trace with real rings on a bed. Partition p and position n of the model are in-(p-1) and offset n-1,
// output partition "x" is out-0. What kfake lacks is played as follows: an EndTxn whose markers are missing is held at
// the broker, for until then the positions are as unstable; a request that is under way is held there too, after its
// client gave up. A removed member that comes back under its id is one that joins again: the group's answer is the same.
type stage struct {
	*bed
	cues       []cue
	now        int // line
	players    map[int]*player
	owner      map[int32]int // of the input partitions
	under      map[string]func()
	generation int32
	made       map[string]bool // outputs that were ever handed over, "p/k"
}

// player is one instance.
type player struct {
	s       *stage
	name    string
	cl      *kgo.Client // as a member: on one connection two JoinGroup would wait for each other
	r       *Ring
	next    Epoch
	on      [slots]Epoch // the slot's epoch
	cps     map[Epoch]Checkpoint
	read    map[int32]int64 // positions of the model
	group   Credential      // as the group has it
	cred    Credential      // as the instance knows it
	failed  bool
	commits map[Epoch]*half
	during  func() // between the look at the present credential and what is sent next
}

// half is a Commit between its two requests.
type half struct {
	release func()
	giveUp  func()
	done    chan error
}

func newStage(b *bed, name string) *stage {
	t := b.t
	s := &stage{bed: b, cues: readTrace(t, name), players: map[int]*player{}, owner: map[int32]int{}, under: map[string]func(){}, made: map[string]bool{}}
	first := offsets.Positions{}
	for _, c := range s.cues {
		if c.by > 0 && s.players[c.by] == nil {
			s.players[c.by] = &player{s: s, name: fmt.Sprintf("i%d", c.by), next: 2, cps: map[Epoch]Checkpoint{}, commits: map[Epoch]*half{}, read: map[int32]int64{}}
		}
		for p := range c.at {
			s.owner[p], first[position(p-1)] = 1, offsets.Position{LeaderEpoch: p + 2}
		}
	}
	for p := range s.owner {
		if s.players[int(p)] != nil {
			s.owner[p] = int(p)
		}
	}
	for _, pl := range s.players {
		cl, err := kgo.NewClient(b.clientOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		pl.cl = cl
	}
	s.join()
	for i, pl := range s.players {
		pl.hear()
		pl.open()
		for p, owner := range s.owner {
			if owner == i {
				pl.read[p] = 1
			}
		}
	}
	if err := s.players[1].r.CommitStart(b.ctx, first, s.players[1].cred); err != nil {
		t.Fatal(err)
	}
	s.forget()
	return s
}

// join moves the whole group to a new generation. Of two members the second one asks first: when it is new, the group
// waits for the other one to ask again.
func (s *stage) join() {
	one, other := s.players[1], s.players[2]
	if other == nil || one.group.MemberID == "" {
		got := s.bed.join(one.name, one.group.MemberID)
		one.group.MemberID, one.group.Generation = got.MemberID, got.Generation
		if other == nil {
			return
		}
	}
	s.generation++
	arrived, came := make(chan struct{}), false
	s.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		if req.Key() == int16(kmsg.JoinGroup) && !came {
			came = true
			close(arrived)
		}
		return nil, nil, false
	})
	done := make(chan error, 2)
	go func() { done <- other.ask() }() // ends with the answer
	s.await(arrived)
	go func() { done <- one.ask() }()
	for range 2 {
		if err := <-done; err != nil {
			s.t.Fatal(err)
		}
	}
	go func() { done <- other.sync() }() // ends with the answer
	go func() { done <- one.sync() }()
	for range 2 {
		if err := <-done; err != nil {
			s.t.Fatal(err)
		}
	}
}

// ask joins with metadata that differ each time, which moves the generation whoever leads.
func (p *player) ask() error {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics, meta.UserData = []string{"in"}, fmt.Append(nil, p.s.generation)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID = group, p.group.MemberID, &p.name
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 60_000, 60_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	resp, err := req.RequestWith(p.s.ctx, p.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	p.group.MemberID, p.group.Generation = resp.MemberID, resp.Generation
	return nil
}

func (p *player) sync() error {
	req := kmsg.NewPtrSyncGroupRequest()
	kind, protocol := "consumer", "range"
	req.Group, req.MemberID, req.Generation, req.InstanceID = group, p.group.MemberID, p.group.Generation, &p.name
	req.ProtocolType, req.Protocol = &kind, &protocol
	resp, err := req.RequestWith(p.s.ctx, p.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

func (p *player) hear() {
	p.cred.MemberID, p.cred.Generation = p.group.MemberID, p.group.Generation
}

func (p *player) open() {
	p.s.t.Helper()
	o := p.s.options()
	o.Instance = p.name
	o.Present = func() Credential {
		now := p.cred
		if during := p.during; during != nil {
			p.during = nil
			during()
		}
		return now
	}
	r, err := Open(p.s.ctx, o)
	if err != nil {
		p.s.t.Fatal(err)
	}
	p.s.t.Cleanup(r.Close)
	p.r, p.failed, p.next = r, false, p.next+p.next%2
}

// rest are the coming lines, up to the first that ends.
func (s *stage) rest(ends func(cue) bool) []cue {
	rest := s.cues[s.now+1:]
	if i := slices.IndexFunc(rest, ends); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// play plays one line. The error is what the code says to it.
func (s *stage) play(c cue) error {
	p := s.players[c.by]
	switch c.do {
	case "Begin":
		return p.begin(c)
	case "Produce":
		return p.produce(c)
	case "TxnOffsetCommit":
		return p.offsets(c)
	case "EndTxn":
		return p.end(c)
	case "Carry":
		steps, err := p.r.Commit(s.ctx, p.cps[p.on[c.slot]])
		if err == nil && !steps.Carried {
			err = errors.New("not carried")
		}
		return err
	case "Settle":
		return p.settle(c)
	case "Fetch":
		return p.fetch(c)
	case "Fence":
		p.restart()
	case "Join":
		p.restart()
		p.group.MemberID = ""
		s.join()
		p.hear()
	case "Lost":
		s.join()
		p.hear()
		p.cred.Lost++
	case "Bystander":
		s.join()
	case "Hear":
		p.hear()
	case "Move":
		s.move(c)
	case "Arrive":
		s.arrive(c)
	case "Kick", "Marker": // with Lost; with EndTxn
	default:
		return fmt.Errorf("nobody knows how to play %q", c.line)
	}
	return nil
}

// restart is what a failed session does before it joins: it discards its clients and fences.
func (p *player) restart() {
	if !p.failed {
		return
	}
	p.r.Close()
	p.s.forget()
	p.open()
	p.s.expectCount(kmsg.InitProducerID, slots)
}

func (p *player) begin(c cue) error {
	for tp, to := range c.at {
		if p.read[tp] != to-1 {
			return fmt.Errorf("reading of %d goes on at %d, not at %d", tp, p.read[tp], to-1)
		}
	}
	n := p.next
	if int(n%slots) != c.slot {
		p.s.t.Fatalf("%s: epoch %d is not on that slot", c.line, n)
	}
	ctx, cancel := context.WithTimeout(p.s.ctx, 5*time.Second)
	defer cancel()
	if err := p.r.Begin(ctx, n); err != nil {
		return err
	}
	p.next++
	p.on[c.slot] = n
	at := offsets.Positions{}
	for tp, to := range c.at {
		p.read[tp] = to
		at[position(tp-1)] = offsets.Position{Offset: to - 1, LeaderEpoch: tp + 2}
	}
	p.cps[n] = Checkpoint{Epoch: n, Positions: at, Credential: p.cred}
	mine := func(l cue) bool { return l.by == c.by && l.slot == c.slot }
	if rest := p.s.rest(mine); len(p.s.cues) > p.s.now+1+len(rest) && p.s.cues[p.s.now+1+len(rest)].do == "Carry" {
		return p.r.PreCommit(ctx, n)
	}
	return nil
}

func (p *player) produce(c cue) error {
	n := p.on[c.slot]
	for tp, k := range c.at {
		value := fmt.Sprintf("%d/%d", tp, k)
		if c.answer == "refused" {
			p.s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Topic: "out"})
		}
		p.s.made[value] = true
		done := make(chan struct{})
		p.s.produce(p.r, n, []*kgo.Record{{Topic: "out", Partition: map[string]int32{"y": 1}[c.answer], Value: []byte(value)}},
			func(*kgo.Record, error) { close(done) })
		p.s.await(done)
	}
	more := func(l cue) bool { return l.by == c.by && l.slot == c.slot && l.do == "Produce" }
	other := func(l cue) bool { return l.by == c.by && l.slot == c.slot && l.do != "Produce" }
	if slices.ContainsFunc(p.s.rest(other), more) {
		return nil
	}
	return p.r.PreCommit(p.s.ctx, n)
}

// offsets plays SendOffsets, which below transaction.version 2 is a part of Commit.
func (p *player) offsets(c cue) error {
	ctx, cancel := context.WithCancel(p.s.ctx)
	p.s.t.Cleanup(cancel)
	switch c.answer {
	case "lost, under way":
		came, lands := p.s.hold(kmsg.TxnOffsetCommit)
		p.s.under["offsets"] = lands
		go func() { // ends with the request
			p.s.await(came)
			cancel()
		}()
	case "no":
		again := func(l cue) bool { return l.by == c.by && l.slot == c.slot }
		if meanwhile := p.s.rest(again); slices.ContainsFunc(meanwhile, func(l cue) bool { return l.do == "Lost" }) {
			p.during = func() {
				s := p.s
				s.join()
				p.hear()
				p.cred.Lost++
			}
		}
	}
	if p.s.version < 2 {
		return p.commit(ctx, cancel, c)
	}
	_, err := p.r.SendOffsets(ctx, p.cps[p.on[c.slot]])
	p.failed = err != nil
	return err
}

// commit plays Commit up to its EndTxn, which is held at the broker until its line.
func (p *player) commit(ctx context.Context, cancel context.CancelFunc, c cue) error {
	n := p.on[c.slot]
	arrived, release := p.s.hold(kmsg.EndTxn)
	p.commits[n] = &half{release: release, giveUp: cancel, done: make(chan error, 1)}
	ends := p.s.cues[p.s.now:]
	if i := slices.IndexFunc(ends, func(l cue) bool { return l.by == c.by && l.slot == c.slot && l.do == "EndTxn" }); i >= 0 && ends[i].answer == "lost, done" {
		p.s.wire.loseUntil(kmsg.EndTxn, swallow, 1, cancel)
	}
	done := p.commits[n].done
	go func() { // ends with Commit, at the latest with the test's context
		_, err := p.r.Commit(ctx, p.cps[n])
		done <- err
	}()
	select {
	case <-arrived:
		return nil
	case err := <-done:
		cancel()
		release()
		p.failed = err != nil
		return err
	}
}

func (p *player) end(c cue) error {
	if p.s.version >= 2 {
		ctx, cancel := context.WithCancel(p.s.ctx)
		p.s.t.Cleanup(cancel)
		if err := p.commit(ctx, cancel, c); err != nil {
			return err
		}
	}
	h := p.commits[p.on[c.slot]]
	if h == nil {
		return fmt.Errorf("nothing to end on slot %d", c.slot)
	}
	switch c.answer {
	case "lost, under way":
		p.s.under["end"] = h.release
		h.giveUp()
		p.failed = true
		return <-h.done
	case "yes", "yes, a copy is under way":
		marker := func(l cue) bool { return l.do == "Marker" && l.slot == c.slot && l.answer == "positions" }
		looks := func(l cue) bool { return l.do == "Fetch" }
		if before := p.s.rest(marker); slices.ContainsFunc(before, looks) {
			return nil // the markers are missing
		}
	}
	return p.awaitEnd(h)
}

func (p *player) awaitEnd(h *half) error {
	h.release()
	select {
	case err := <-h.done:
		p.failed = err != nil
		p.r.renewals.Wait()
		return err
	case <-p.s.ctx.Done():
		return p.s.ctx.Err()
	}
}

func (p *player) settle(c cue) error {
	ctx, cancel := context.WithCancel(p.s.ctx)
	defer cancel()
	switch c.answer {
	case "lost, under way":
		came, lands := p.s.hold(kmsg.OffsetCommit)
		p.s.under["plain"] = lands
		go func() { // ends with the request
			p.s.await(came)
			cancel()
		}()
	case "yes, a copy is under way":
		// The client sends again only when an answer is missing.
		p.s.wire.lose(kmsg.OffsetCommit, cutAfter, 1)
	}
	settled, err := p.r.Settle(ctx, 0)
	p.failed = err != nil
	if err == nil && !settled {
		return errNothing
	}
	return err
}

var errNothing = errors.New("there is nothing to settle")

// fetch reads positions as a new owner does.
func (p *player) fetch(c cue) error {
	ctx, cancel := context.WithTimeout(p.s.ctx, 200*time.Millisecond)
	defer cancel()
	got, err := offsets.Committed(ctx, p.s.adm, group)
	if err != nil {
		return err
	}
	for tp, want := range c.at {
		p.read[tp] = got[position(tp-1)].Offset + 1
		if p.read[tp] != want {
			return fmt.Errorf("the position of %d is %d, not %d", tp, p.read[tp], want)
		}
	}
	return nil
}

// move is a rebalance, with what the revocation does at its end.
func (s *stage) move(c cue) {
	s.join()
	for _, pl := range s.players {
		pl.hear()
	}
	for tp, to := range c.at {
		from := s.owner[tp]
		if from == int(to) {
			continue
		}
		s.players[from].r.Forget([]offsets.TopicPartition{position(tp - 1)})
		s.players[from].cred.Revoked++
		s.owner[tp] = int(to)
		delete(s.players[from].read, tp)
	}
}

// arrive lets a request through that was under way, or sends the copy of an answered one.
func (s *stage) arrive(c cue) {
	if lands := s.under[c.answer]; lands != nil {
		lands()
		return
	}
	key := map[string]kmsg.Key{"offsets": kmsg.TxnOffsetCommit, "end": kmsg.EndTxn}[c.answer]
	sent := s.requests(key)
	if len(sent) == 0 {
		s.t.Fatalf("%s: nothing was sent", c.line)
	}
	if _, err := s.cl.Request(s.ctx, sent[0].Request); err != nil {
		s.t.Fatal(err)
	}
}
