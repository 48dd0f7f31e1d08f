-------------------------------- MODULE Ring --------------------------------
(***************************************************************************)
(* The two-slot commit protocol of package txn, with the part of bridge    *)
(* that drives it, against what Kafka promises.  Names are those of the    *)
(* code: states and events are txn/state.go's, the steps are the methods   *)
(* of txn.Participant, credentials are txn.Credential.                     *)
(*                                                                         *)
(* Modelled                                                                *)
(*   process   Begin (with the barrier: the credential is captured),       *)
(*             Produce, PreCommit, SendOffsets (TxnOffsetCommit, at any    *)
(*             moment before the end), Commit (EndTxn, or carry), Settle   *)
(*             between commits and beside epochs that are open,            *)
(*             CommitStart, Forget, restart: fence both ids, join, fetch   *)
(*             stable positions                                            *)
(*   broker    producer epochs, transactions that are open, decided or     *)
(*             ended, one marker per partition in any order, its time-out; *)
(*             pending positions, of which the later record wins           *)
(*   group     members and generations, a member that is removed and does  *)
(*             not know it, take-over, a graceful move of any partitions,  *)
(*             a bystander's rebalance that only moves the generation, a   *)
(*             client that joins again behind the pipeline's back          *)
(*   faults    death at any moment, answers that are lost after or before  *)
(*             the broker acted, requests and copies of answered requests  *)
(*             that arrive at any later moment, refused records            *)
(* Not modelled                                                            *)
(*   late or repeated Produce requests (Kafka's sequence numbers), loss of *)
(*   acknowledged data, moves of coordinators, lanes and their alignment,  *)
(*   two records of one partition in one epoch, truncated input, expired   *)
(*   ids or positions, a foreign group member's commits, time.             *)
(*                                                                         *)
(* An input record <<p, k>> is record k of input partition p; it has one   *)
(* output in every output partition, unless k \in Mute.                    *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Inst,     \* instances, numbers from 1; the ids of i are 2i and 2i+1
  Src, Out, \* input partitions (numbers), output partitions (strings)
  N,        \* records per input partition: 1..N
  Mute,     \* those of 1..N that have no output
  Version,  \* the finalized transaction.version: 1 or 2
  Faults,   \* how many deaths, lost or late requests, refusals, time-outs
  Kicks,    \* how many removals of a member
  Moves,    \* how many graceful rebalances
  News,     \* how many rebalances of bystanders
  Copies,   \* kinds of requests of which a copy may arrive later, although answered
  Wide,     \* an epoch may hold a record of more than one partition
  KeepId,   \* a client that joins again by itself keeps its member id
  OneName,  \* all processes have the same instance id, hence ids and place in the group
  Start,    \* the group has no positions at first
  Mut       \* guards that are taken away, "..." each; {} is the protocol

VARIABLES
  txn,      \* per transactional id: producer epoch, phase, partitions without their marker
  out,      \* per output partition: records, in order
  pos,      \* the group's position records, in order
  wire,     \* requests and copies that nobody waits for
  gen,      \* newest generation
  mem,      \* per instance: the credential that the group takes, generation 0 = not a member
  asg,      \* per input partition: the member that has it
  proc,     \* per instance: the process
  used,     \* spent budgets
  step      \* what was done last: for people and for the replay, no part of the state
vars == <<txn, out, pos, wire, gen, mem, asg, proc, used>>

Without(g) == g \in Mut \* guard g is taken away
Did(do, i, slot, at, answer) == step' = [do |-> do, by |-> i, slot |-> slot, at |-> at, answer |-> answer]
Or(a, b)   == IF a THEN TRUE ELSE b \* in an action \/ would make two steps of one

---------------------------------------------------------------------------
(* txn/state.go *)
StateReady     == "ready"
StateOpen      == "open"
StatePositioned == "positioned"
StateFlushed   == "flushed"
StatePrepared  == "prepared"
StateCommitted == "committed"
StateFailed    == "failed"
EventBegin   == "begin"
EventFlush   == "flush"
EventCarry   == "carry"
EventOffsets == "offsets"
EventEnd     == "end"
EventRenew   == "renew"
EventFail    == "fail"
Transitions == {
  <<StateReady, EventBegin, StateOpen>>,         <<StateReady, EventFail, StateFailed>>,
  <<StateOpen, EventFlush, StateFlushed>>,       <<StateOpen, EventFail, StateFailed>>,
  <<StateOpen, EventOffsets, StatePositioned>>,  <<StatePositioned, EventFlush, StatePrepared>>,
  <<StatePositioned, EventFail, StateFailed>>,
  <<StateFlushed, EventCarry, StateReady>>,      <<StateFlushed, EventOffsets, StatePrepared>>,
  <<StateFlushed, EventFail, StateFailed>>,      <<StatePrepared, EventEnd, StateCommitted>>,
  <<StatePrepared, EventFail, StateFailed>>,     <<StateCommitted, EventRenew, StateReady>>,
  <<StateCommitted, EventFail, StateFailed>>,    <<StateFailed, EventFail, StateFailed>> }
\* an event out of place would end TLC here: no t to choose
Step(s, e) == (CHOOSE t \in Transitions : t[1] = s /\ t[2] = e)[3]

---------------------------------------------------------------------------
Slots    == {0, 1}
Id(i, s) == IF OneName THEN 2 + s ELSE 2*i + s
Ids      == {Id(i, s) : i \in Inst, s \in Slots}
None     == [x \in {} |-> 0]       \* no positions
Nowhere  == [p \in Src |-> 0]      \* positions not fetched
Max(S)   == CHOOSE x \in S : \A y \in S : y <= x

(* ------------------------------ the broker ------------------------------ *)
\* phases: "none", "open", "commit" and "abort" (decided, markers missing),
\* and for Version 1 "done" (the last outcome is remembered under its epoch)
Decided(d) == txn[d].phase \in {"commit", "abort"}

\* A position record that a later committed one supersedes has no effect any more.
Prune(l) ==
  LET alive(k) == {p \in DOMAIN l[k].at :
        ~l[k].done \/ ~\E j \in (k+1)..Len(l) : l[j].done /\ p \in DOMAIN l[j].at}
      cut == [k \in 1..Len(l) |-> [l[k] EXCEPT !.at = [p \in alive(k) |-> l[k].at[p]]]]
      some(x) == DOMAIN x.at # {}
  IN SelectSeq(cut, some)

\* The position of p after the records that count; 0 = none.
At(p, counts(_)) ==
  LET ks == {k \in 1..Len(pos) : counts(pos[k]) /\ p \in DOMAIN pos[k].at}
  IN IF ks = {} THEN 0 ELSE pos[Max(ks)].at[p]
Committed(x)   == x.done
Irrevocable(x) == x.done \/ (x.id \in Ids /\ txn[x.id].phase = "commit")
Unstable(p)    == \E k \in 1..Len(pos) : ~pos[k].done /\ p \in DOMAIN pos[k].at

Member(m)  == mem[m.i].generation # 0 /\ m.member = mem[m.i].member
Present(m) == Member(m) /\ m.generation = mem[m.i].generation

\* What the broker makes of a request: "yes", "again" (nothing to do, success), "wait", "no".
Verdict(m) ==
  CASE m.kind = "offsets" -> IF ~Present(m) \/ m.epoch # txn[m.id].epoch THEN "no"
                             ELSE IF Decided(m.id) THEN "wait" ELSE "yes"
    [] m.kind = "end"     -> IF m.epoch # txn[m.id].epoch THEN "no"
                             ELSE IF txn[m.id].phase = "open" THEN "yes"
                             ELSE IF txn[m.id].phase \in {"commit", "done"} THEN "again" ELSE "no"
    [] m.kind = "plain"   -> IF Present(m) THEN "yes" ELSE "no"
Stale(m) == m.kind # "end" /\ Member(m) /\ ~Present(m) /\ (m.kind = "offsets" => m.epoch = txn[m.id].epoch)

TxnAfter(m) ==
  CASE m.kind = "offsets" -> [txn EXCEPT ![m.id].phase = "open", ![m.id].parts = @ \cup {"positions"}]
    [] m.kind = "end"     -> [txn EXCEPT ![m.id].phase = "commit", ![m.id].epoch = IF Version = 2 THEN @ + 1 ELSE @]
    [] m.kind = "plain"   -> txn
PosAfter(m) ==
  CASE m.kind = "offsets" -> Append(pos, [id |-> m.id, at |-> m.at, done |-> FALSE])
    [] m.kind = "end"     -> pos
    [] m.kind = "plain"   -> Prune(Append(pos, [id |-> 0, at |-> m.at, done |-> TRUE]))

\* Requests under way that some later state may still accept: credentials and epochs do not come back.
Alive(ms, t, g) == {m \in ms :
  /\ m.kind # "plain" => m.epoch = t[m.id].epoch
  /\ m.kind # "end" => g[m.i].generation = m.generation /\ g[m.i].member = m.member}

\* A request that nobody waits for arrives.  Below version 2 a TxnOffsetCommit is taken only by
\* a transaction to which the group was added.
Arrive == \E m \in wire :
  /\ Verdict(m) = "yes"
  /\ m.kind = "offsets" /\ Version = 1 => txn[m.id].phase = "open" /\ "positions" \in txn[m.id].parts
  /\ txn' = TxnAfter(m) /\ pos' = PosAfter(m)
  /\ wire' = Alive(wire \ {m}, txn', mem)
  /\ Did("Arrive", m.i, IF m.kind = "plain" THEN "" ELSE m.id % 2, IF m.kind = "end" THEN "" ELSE m.at, m.kind)
  /\ UNCHANGED <<out, gen, mem, asg, proc, used>>

Marker == \E d \in Ids : \E q \in txn[d].parts :
  LET good == txn[d].phase = "commit"
      seal(l) == IF good THEN [k \in 1..Len(l) |-> IF l[k].id = d THEN [l[k] EXCEPT !.done = TRUE] ELSE l[k]]
                 ELSE LET keep(x) == x.done \/ x.id # d IN SelectSeq(l, keep)
      rest == txn[d].parts \ {q}
  IN /\ Decided(d)
     /\ txn' = [txn EXCEPT ![d].parts = rest,
                 ![d].phase = IF rest # {} THEN @ ELSE IF Version = 1 /\ good THEN "done" ELSE "none"]
     /\ pos' = IF q = "positions" THEN Prune(seal(pos)) ELSE pos
     /\ out' = [o \in Out |-> IF o = q THEN seal(out[o]) ELSE out[o]]
     /\ Did("Marker", d \div 2, d % 2, "", q)
     /\ UNCHANGED <<wire, gen, mem, asg, proc, used>>

TimeOut == \E d \in Ids :
  /\ txn[d].phase = "open" /\ used.faults < Faults
  /\ txn' = [txn EXCEPT ![d].phase = "abort", ![d].epoch = @ + 1]
  /\ wire' = Alive(wire, txn', mem) /\ Did("TimeOut", d \div 2, d % 2, "", "")
  /\ used' = [used EXCEPT !.faults = @ + 1]
  /\ UNCHANGED <<out, pos, gen, mem, asg, proc>>

(* ------------------------------ the process ----------------------------- *)
Nobody == [member |-> 0, generation |-> 0, lost |-> 0, revoked |-> 0]
Empty  == [at |-> None, cred |-> Nobody, again |-> FALSE]

\* A failed or dead process: every client is discarded, memory is forgotten.
Down(c, kept) == [c EXCEPT !.up = FALSE, !.slot = [s \in Slots |-> Step(@[s], EventFail)], !.ring = <<>>,
                           !.carried = Empty, !.read = Nowhere, !.next = 0, !.kept = kept,
                           !.look = {}, !.left = FALSE, !.cred = IF kept THEN @ ELSE Nobody]
Fail(i) == proc' = [proc EXCEPT ![i] = Down(@, FALSE)]

\* What follows a request that was refused for good, or not answered.
Failed(i, m) ==
  LET c == proc[i]
      named == UNION {DOMAIN c.ring[k].at : k \in 1..Len(c.ring)}
      oldest(p) == c.ring[CHOOSE k \in 1..Len(c.ring) : p \in DOMAIN c.ring[k].at
                            /\ \A j \in 1..(k-1) : p \notin DOMAIN c.ring[j].at].at[p] - 1
      back(f) == [p \in Src |-> IF p \in named THEN oldest(p) ELSE f[p]]
  IN IF m.kind = "end" /\ Without("unknown ends all")
     THEN proc' = [proc EXCEPT ![i] = [c EXCEPT !.ring = Tail(@), !.slot[c.ring[1].slot] = StateFailed]]
     ELSE IF m.kind = "end" /\ Without("positions from the broker")
     THEN proc' = [proc EXCEPT ![i] = [Down(c, TRUE) EXCEPT !.read = back(c.read)]]
     ELSE IF m.kind = "offsets" /\ Without("offsets succeeded")
     THEN proc' = [proc EXCEPT ![i].slot[c.ring[1].slot] = Step(@, EventOffsets)]
     ELSE IF m.kind = "plain" /\ Without("new member after an unclear plain commit")
     THEN proc' = [proc EXCEPT ![i] = Down(c, TRUE)]
     ELSE Fail(i)

\* renewed, in txn/progress.go: may an answer about a stale generation be followed by one repetition?
Renewed(old, now) ==
  /\ now.member = old.member
  /\ now.generation # old.generation
  /\ now.lost = old.lost \/ Without("no lost since the barrier")
  /\ now.revoked = old.revoked \/ Without("no revoked since the barrier")

\* Request m of process i; ok is the process after success.
Send(do, i, m, ok, old, repeated, again) ==
  LET v == Verdict(m)
      Is(answer) == Did(do, i, IF m.kind = "plain" THEN "" ELSE m.id % 2, IF m.kind = "end" THEN "" ELSE m.at, answer)
  IN
  /\ UNCHANGED <<out, gen, mem, asg>>
  /\ \/ /\ v \in {"yes", "again"}                            \* done, answered
        /\ txn' = (IF v = "yes" THEN TxnAfter(m) ELSE txn) /\ pos' = (IF v = "yes" THEN PosAfter(m) ELSE pos)
        /\ proc' = [proc EXCEPT ![i] = ok]
        /\ \/ wire' = Alive(wire, txn', mem) /\ used' = used /\ Is("yes")
           \/ /\ m.kind \in Copies /\ v = "yes" /\ used.faults < Faults /\ Is("yes, a copy is under way")
              /\ wire' = Alive(wire \cup {m}, txn', mem) /\ used' = [used EXCEPT !.faults = @ + 1]
     \/ /\ v = "yes" /\ used.faults < Faults                 \* no answer
        /\ used' = [used EXCEPT !.faults = @ + 1]
        /\ Failed(i, m)
        /\ \/ txn' = TxnAfter(m) /\ pos' = PosAfter(m) /\ wire' = Alive(wire, txn', mem) /\ Is("lost, done")
           \/ txn' = txn /\ pos' = pos /\ wire' = wire \cup {m} /\ Is("lost, under way")
     \/ /\ v = "no" /\ Is("no")
        /\ UNCHANGED <<txn, pos, wire, used>>
        /\ IF Stale(m) /\ ~repeated /\ Renewed(old, proc[i].cred) THEN proc' = [proc EXCEPT ![i] = again]
           ELSE Failed(i, m)

\* States in which outputs may be missing.
Unflushed == {StateOpen, StatePositioned}

Merge(a, b) == [p \in DOMAIN a \cup DOMAIN b |-> IF p \in DOMAIN b THEN b[p] ELSE a[p]]

\* Epoch n is polled, gets its slot, and its barrier: credential captured, rebalances allowed again.
Begin == \E i \in Inst : \E P \in (SUBSET proc[i].own) \ {{}} :
  LET c == proc[i]
      last == c.ring[Len(c.ring)]
      read == [p \in Src |-> IF p \in P THEN c.read[p] + 1 ELSE c.read[p]]
      todo == {<<o, p, c.read[p]>> : o \in Out, p \in {q \in P : c.read[q] \notin Mute}}
      state == Step(c.slot[c.next], EventBegin)
  IN /\ c.up /\ c.slot[c.next] = StateReady
     /\ Or(Wide, Cardinality(P) = 1)
     /\ \A p \in P : c.read[p] \in 1..N
     /\ Or(c.ring = <<>>, Or(Without("begin after flush"), c.slot[last.slot] \notin Unflushed))
     /\ proc' = [proc EXCEPT ![i] = [c EXCEPT
          !.read = read, !.next = 1 - @,
          !.slot[c.next] = IF todo = {} THEN Step(state, EventFlush) ELSE state,
          !.ring = Append(@, [slot |-> c.next, todo |-> todo, handed |-> todo # {}, repeated |-> FALSE, late |-> FALSE,
                              at |-> [p \in P |-> read[p]], cred |-> c.cred])]]
     /\ Did("Begin", i, c.next, [p \in P |-> read[p]], "")
     /\ UNCHANGED <<txn, out, pos, wire, gen, mem, asg, used>>

\* One output is appended and acknowledged; with the last one PreCommit returns.
Produce == \E i \in Inst : \E k \in 1..Len(proc[i].ring) : \E t \in proc[i].ring[k].todo :
  LET c == proc[i]
      e == c.ring[k]
      d == Id(i, e.slot)
      left == e.todo \ {t}
      acked == [c EXCEPT !.ring[k].todo = left, !.slot[e.slot] = IF left = {} /\ @ \in Unflushed THEN Step(@, EventFlush) ELSE @]
      Is(answer) == Did("Produce", i, e.slot, [p \in {t[2]} |-> t[3]], answer)
  IN /\ c.up
     /\ UNCHANGED <<pos, wire, gen, mem, asg>>
     /\ \/ /\ c.epoch[e.slot] = txn[d].epoch /\ ~Decided(d)
           /\ txn' = [txn EXCEPT ![d].phase = "open", ![d].parts = @ \cup {t[1]}]
           /\ out' = [out EXCEPT ![t[1]] = Append(@, [id |-> d, rec |-> <<t[2], t[3]>>, done |-> FALSE])]
           /\ proc' = [proc EXCEPT ![i] = acked] /\ used' = used /\ Is(t[1])
        \/ /\ c.epoch[e.slot] # txn[d].epoch                  \* fenced
           /\ UNCHANGED <<txn, out, used>> /\ Fail(i) /\ Is("fenced")
        \/ /\ used.faults < Faults                            \* the record is refused: its promise fails
           /\ UNCHANGED <<txn, out>> /\ used' = [used EXCEPT !.faults = @ + 1] /\ Is("refused")
           /\ IF Without("every promise succeeded") THEN proc' = [proc EXCEPT ![i] = acked] ELSE Fail(i)

\* The positions enter the transaction, those that were carried with them: in Commit, or from version 2 on in SendOffsets,
\* while outputs are on their way.
TxnOffsetCommit == \E i \in Inst : \E k \in 1..Len(proc[i].ring) :
  LET c == proc[i]
      e == c.ring[k]
      at == Merge(c.carried.at, e.at)
      cred == IF Without("credential of the barrier") \/ e.late THEN c.cred ELSE e.cred
      sent == [c EXCEPT !.carried = IF Without("carried goes with the commit") \/ Without("carried goes once") THEN @ ELSE Empty]
  IN /\ c.up
     /\ e.handed
     /\ Or(k = 1, Or(Without("commit in order"),
           Without("offsets after the last end") /\ \A j \in 1..(k-1) : c.slot[c.ring[j].slot] = StatePrepared))
     /\ Or(c.slot[e.slot] = StateFlushed, Version = 2 /\ c.slot[e.slot] = StateOpen)
     /\ Send("TxnOffsetCommit", i, [kind |-> "offsets", i |-> i, id |-> Id(i, e.slot), epoch |-> c.epoch[e.slot],
                 member |-> cred.member, generation |-> cred.generation, at |-> at],
             [sent EXCEPT !.slot[e.slot] = Step(@, EventOffsets)], e.cred, e.repeated,
             [c EXCEPT !.ring[k].repeated = TRUE,
                       !.ring[k].late = Without("pair read before the test"), !.ring[k].cred = c.cred])

\* Commit.  From version 2 on the slot is free at once, below after its renewal (see Fence).
EndTxn == \E i \in Inst :
  LET c == proc[i]
      e == c.ring[1]
      ended == Step(StatePrepared, EventEnd)
  IN /\ c.up /\ c.ring # <<>>
     /\ Or(c.slot[e.slot] = StatePrepared, Without("commit after flush") /\ c.slot[e.slot] = StatePositioned)
     /\ Send("EndTxn", i, [kind |-> "end", i |-> i, id |-> Id(i, e.slot), epoch |-> c.epoch[e.slot]],
             [c EXCEPT !.ring = Tail(@), !.epoch[e.slot] = IF Version = 2 THEN @ + 1 ELSE @,
                       !.carried = IF Without("carried goes once") THEN @ ELSE Empty,
                       !.slot[e.slot] = IF Version = 2 \/ Without("renewal") THEN Step(ended, EventRenew) ELSE ended],
             Nobody, TRUE, c)

\* Commit of an epoch without output: its positions are carried.
Carry == \E i \in Inst : \E k \in 1..Len(proc[i].ring) :
  LET c == proc[i]
      e == c.ring[k]
  IN /\ c.up /\ ~e.handed /\ c.slot[e.slot] = StateFlushed
     /\ Or(k = 1, Without("carry in order"))
     /\ proc' = [proc EXCEPT ![i] = [c EXCEPT
          !.ring = SubSeq(@, 1, k-1) \o SubSeq(@, k+1, Len(@)),
          !.slot[e.slot] = Step(@, EventCarry),
          !.carried = [at |-> Merge(@.at, e.at), cred |-> e.cred, again |-> FALSE]]]
     /\ Did("Carry", i, e.slot, e.at, "")
     /\ UNCHANGED <<txn, out, pos, wire, gen, mem, asg, used>>

\* The plain commit of what is carried, while no Commit runs; epochs may be open or flushed.
Settle == \E i \in Inst :
  LET c == proc[i] IN
  /\ c.up /\ DOMAIN c.carried.at # {}
  /\ Or(c.ring = <<>>, Or(c.slot[c.ring[1].slot] \notin {StatePositioned, StatePrepared}, Without("settle between commits")))
  /\ Send("Settle", i, [kind |-> "plain", i |-> i, member |-> c.carried.cred.member, generation |-> c.carried.cred.generation,
              at |-> c.carried.at],
          [c EXCEPT !.carried = Empty], c.carried.cred, c.carried.again,
          [c EXCEPT !.carried.again = TRUE, !.carried.cred = c.cred])

(* ------------------------------- restart -------------------------------- *)
\* InitProducerID.  It ends what is open, and answers when nothing of it is left.  Below version 2
\* it also renews a slot.
Fence == \E i \in Inst, s \in Slots :
  LET c == proc[i]
      d == Id(i, s)
  IN /\ c.slot[s] \in {StateFailed, StateCommitted}
     /\ \A k \in 1..Len(c.ring) : c.ring[k].slot # s
     /\ \/ /\ txn[d].phase = "open"
           /\ txn' = [txn EXCEPT ![d].phase = "abort", ![d].epoch = @ + 1] /\ proc' = proc
        \/ /\ txn[d].phase \in {"none", "done"}
           /\ txn' = [txn EXCEPT ![d].phase = "none", ![d].epoch = @ + 1]
           /\ proc' = [proc EXCEPT ![i].slot[s] = StateReady, ![i].epoch[s] = txn[d].epoch + 1]
     /\ wire' = Alive(wire, txn', mem)
     /\ Did("Fence", i, s, "", IF txn[d].phase = "open" THEN "aborts" ELSE "yes")
     /\ UNCHANGED <<out, pos, gen, mem, asg, used>>

Fenced(c) == \A s \in (IF Without("fence") THEN {} ELSE IF Without("fence both") THEN {0} ELSE Slots) : c.slot[s] # StateFailed

\* takeName: LeaveGroup by the instance id with an empty member id removes whoever has the name.
TakeName == \E i \in Inst :
  /\ OneName /\ ~proc[i].up /\ ~proc[i].left /\ Fenced(proc[i])
  /\ proc' = [proc EXCEPT ![i].left = TRUE]
  /\ mem' = [j \in Inst |-> Nobody] /\ wire' = Alive(wire, txn, mem') /\ Did("TakeName", i, "", "", "")
  /\ UNCHANGED <<txn, out, pos, gen, asg, used>>

\* What the group holds after i has joined; with one name, that one is now i.
Joined(i, cred) == IF OneName THEN [j \in Inst |-> IF j = i THEN cred ELSE Nobody] ELSE [mem EXCEPT ![i] = cred]
Assigned(i)     == IF OneName THEN [p \in Src |-> i] ELSE asg

Join == \E i \in Inst :
  LET c == proc[i]
      cred == [Nobody EXCEPT !.member = gen + 1, !.generation = gen + 1]
  IN /\ ~c.up /\ Fenced(c) /\ (OneName => c.left) /\ Did("Join", i, "", "", "")
     /\ IF c.kept /\ c.cred.generation = mem[i].generation /\ c.cred.member = mem[i].member
        THEN /\ proc' = [proc EXCEPT ![i].up = TRUE, ![i].kept = FALSE]
             /\ UNCHANGED <<wire, gen, mem, asg>>
        ELSE /\ gen' = gen + 1 /\ mem' = Joined(i, cred) /\ asg' = Assigned(i)
             /\ proc' = [proc EXCEPT ![i] = [c EXCEPT !.up = TRUE, !.kept = FALSE, !.left = FALSE, !.cred = cred,
                           !.own = {p \in Src : asg'[p] = i}, !.read = Nowhere]]
             /\ wire' = Alive(wire, txn, mem')
     /\ UNCHANGED <<txn, out, pos, used>>

\* OffsetFetch with "require stable".
Fetch == \E i \in Inst : \E p \in proc[i].own :
  /\ proc[i].up /\ proc[i].read[p] = 0 /\ proc[i].look = {}
  /\ Or(~Unstable(p), Without("stable positions"))
  /\ Or(At(p, Committed) # 0, ~Start)
  /\ LET at == IF At(p, Committed) = 0 THEN 1 ELSE At(p, Committed)
     IN proc' = [proc EXCEPT ![i].read[p] = at] /\ Did("Fetch", i, "", [q \in {p} |-> at], "")
  /\ UNCHANGED <<txn, out, pos, wire, gen, mem, asg, used>>

\* commitStart, bridge/start.go: a partition of ours has no position.  First it looks what there is,
\* then it commits where to begin.
Look == \E i \in Inst : \E p \in proc[i].own :
  LET c == proc[i]
      have == {q \in Src : At(q, Committed) # 0}
      mine == {q \in c.own : c.read[q] = 0} \ have
  IN /\ Start /\ c.up /\ c.read[p] = 0 /\ c.look = {} /\ At(p, Committed) = 0 /\ ~Unstable(p)
     /\ proc' = [proc EXCEPT ![i].look = IF have = {} /\ Without("start of our own") THEN Src ELSE mine]
     /\ Did("Look", i, "", "", "")
     /\ UNCHANGED <<txn, out, pos, wire, gen, mem, asg, used>>
CommitStart == \E i \in Inst :
  LET c == proc[i] IN
  /\ c.up /\ c.look # {}
  /\ Send("CommitStart", i, [kind |-> "plain", i |-> i, member |-> c.cred.member, generation |-> c.cred.generation, at |-> [p \in c.look |-> 1]],
          [c EXCEPT !.look = {}], c.cred, TRUE, c)

(* ------------------------------ the group ------------------------------- *)
Die == \E i \in Inst :
  /\ used.faults < Faults /\ Or(proc[i].up, \E s \in Slots : proc[i].slot[s] # StateFailed)
  /\ Fail(i) /\ used' = [used EXCEPT !.faults = @ + 1] /\ Did("Die", i, "", "", "")
  /\ UNCHANGED <<txn, out, pos, wire, gen, mem, asg>>

\* i is no member any more, and does not know.
Kick == \E i \in Inst :
  /\ used.kicks < Kicks /\ mem[i].generation # 0
  /\ mem' = [mem EXCEPT ![i] = Nobody] /\ used' = [used EXCEPT !.kicks = @ + 1] /\ Did("Kick", i, "", "", "")
  /\ wire' = Alive(wire, txn, mem')
  /\ UNCHANGED <<txn, out, pos, gen, asg, proc>>

\* Positions in memory that a change of the assignment leaves.
Keep(f, stay) == [p \in Src |-> IF p \in stay THEN f[p] ELSE 0]
Drop(at, stay) == [p \in (DOMAIN at) \cap stay |-> at[p]]

\* OnPartitionsLost; the client joins again by itself.  The session ends with it, but what is in
\* flight goes on until then.
Lost == \E i \in Inst :
  LET c == proc[i]
      cred == [c.cred EXCEPT !.member = IF KeepId THEN @ ELSE gen + 1, !.generation = gen + 1, !.lost = @ + 1]
  IN /\ c.up /\ mem[i].generation = 0 /\ c.look = {}
     /\ gen' = gen + 1 /\ mem' = Joined(i, cred) /\ asg' = Assigned(i) /\ Did("Lost", i, "", "", "")
     /\ proc' = [proc EXCEPT ![i] = [c EXCEPT !.cred = cred, !.own = {p \in Src : asg'[p] = i},
                   !.read = Nowhere, !.carried.at = Drop(@, IF Without("forget") THEN Src ELSE {})]]
     /\ wire' = Alive(wire, txn, mem')
     /\ UNCHANGED <<txn, out, pos, used>>

\* A rebalance that moves nothing of ours; a client hears of the generation later.
Bystander ==
  /\ used.news < News /\ used' = [used EXCEPT !.news = @ + 1] /\ gen' = gen + 1 /\ Did("Bystander", 0, "", "", "")
  /\ mem' = [j \in Inst |-> IF mem[j].generation = 0 THEN Nobody ELSE [mem[j] EXCEPT !.generation = gen + 1]]
  /\ wire' = Alive(wire, txn, mem')
  /\ UNCHANGED <<txn, out, pos, asg, proc>>
Hear == \E i \in Inst :
  /\ News > 0 /\ proc[i].up /\ mem[i].generation # 0 /\ proc[i].cred.member = mem[i].member
  /\ proc[i].cred.generation # mem[i].generation
  /\ proc' = [proc EXCEPT ![i].cred.generation = mem[i].generation] /\ Did("Hear", i, "", "", "")
  /\ UNCHANGED <<txn, out, pos, wire, gen, mem, asg, used>>

\* A rebalance: OnPartitionsRevoked drains, forgets what leaves, and returns.
Reassign(to) ==
  LET in == {j \in Inst : mem[j].generation # 0}
      own(j) == {p \in Src : to[p] = j}
      taken(j) == proc[j].own \ own(j)
  IN /\ \A j \in in : /\ proc[j].up /\ proc[j].cred.generation = mem[j].generation /\ proc[j].cred.member = mem[j].member
                      /\ proc[j].look = {}
                      /\ taken(j) # {} => Or(proc[j].ring = <<>>, Without("drain"))
     /\ asg' = to /\ gen' = gen + 1
     /\ mem' = [j \in Inst |-> IF j \in in THEN [mem[j] EXCEPT !.generation = gen + 1] ELSE Nobody]
     /\ proc' = [j \in Inst |-> IF j \notin in THEN proc[j] ELSE
          LET c == proc[j]  stay == c.own \cap own(j)
          IN [c EXCEPT !.cred.generation = gen + 1, !.cred.revoked = IF taken(j) # {} THEN @ + 1 ELSE @,
                       !.own = own(j), !.read = Keep(@, stay),
                       !.carried.at = IF Without("forget") THEN @ ELSE Drop(@, stay)]]
     /\ wire' = Alive(wire, txn, mem')
     /\ UNCHANGED <<txn, out, pos>>
TakeOver == \E p \in Src, j \in Inst :
  /\ mem[asg[p]].generation = 0 /\ mem[j].generation # 0
  /\ Reassign([q \in Src |-> IF asg[q] = asg[p] THEN j ELSE asg[q]]) /\ used' = used /\ Did("TakeOver", j, "", "", "")
Move == \E to \in [Src -> Inst] :
  /\ used.moves < Moves /\ to # asg
  /\ \A q \in Src : mem[asg[q]].generation # 0 /\ mem[to[q]].generation # 0
  /\ Reassign(to) /\ used' = [used EXCEPT !.moves = @ + 1] /\ Did("Move", 0, "", to, "")

(* -------------------------- what must always hold ------------------------ *)
In(o, p, k) == \E x \in 1..Len(out[o]) : out[o][x].rec = <<p, k>> /\ Irrevocable(out[o][x])
Next1(p)    == IF At(p, Irrevocable) = 0 THEN 1 ELSE At(p, Irrevocable)   \* the position once all is decided

\* No output is committed twice.
NoDup == \A o \in Out : \A x, y \in 1..Len(out[o]) :
  x < y /\ Irrevocable(out[o][x]) /\ Irrevocable(out[o][y]) => out[o][x].rec # out[o][y].rec
\* Every record before the position has its outputs.
NoLoss == \A o \in Out, p \in Src : \A k \in 1..(Next1(p) - 1) : k \in Mute \/ In(o, p, k)
\* No record from the position on has an output: a restart would repeat it.
NoAhead == \A o \in Out : \A x \in 1..Len(out[o]) :
  Irrevocable(out[o][x]) => out[o][x].rec[2] < Next1(out[o][x].rec[1])
\* Outputs of one input partition are in its order.
Order == \A o \in Out : \A x, y \in 1..Len(out[o]) :
  x < y /\ Irrevocable(out[o][x]) /\ Irrevocable(out[o][y]) /\ out[o][x].rec[1] = out[o][y].rec[1]
  => out[o][x].rec[2] <= out[o][y].rec[2]
\* What a read_committed reader sees has no gap, at any moment.
Stable(o) == LET open == {k \in 1..Len(out[o]) : ~out[o][k].done}
             IN IF open = {} THEN Len(out[o]) ELSE (CHOOSE k \in open : \A j \in open : k <= j) - 1
VisPrefix == \A o \in Out, p \in Src :
  LET seen == {out[o][x].rec[2] : x \in {y \in 1..Stable(o) : out[o][y].rec[1] = p}}
  IN \A k \in seen : \A j \in 1..k : j \in Mute \/ j \in seen
\* With nothing under way, outputs and positions say the same.
Atomic == (\A d \in Ids : txn[d].phase \in {"none", "done"}) => \A o \in Out, p \in Src :
  {out[o][x].rec[2] : x \in {y \in 1..Len(out[o]) : out[o][y].rec[1] = p}}
    = {k \in 1..((IF At(p, Committed) = 0 THEN 1 ELSE At(p, Committed)) - 1) : k \notin Mute}

(* ------------------------------- behaviour ------------------------------- *)
Init ==
  /\ txn = [d \in Ids |-> [epoch |-> 0, phase |-> "none", parts |-> {}]]
  /\ out = [o \in Out |-> <<>>] /\ pos = <<>> /\ wire = {} /\ gen = 1
  /\ mem = [i \in Inst |-> IF OneName /\ i # 1 THEN Nobody ELSE [Nobody EXCEPT !.member = i, !.generation = 1]]
  /\ asg = [p \in Src |-> IF p \in Inst /\ ~OneName THEN p ELSE 1]
  /\ proc = [i \in Inst |-> LET up == ~OneName \/ i = 1 IN
       [up |-> up, slot |-> [s \in Slots |-> IF up THEN StateReady ELSE StateFailed], epoch |-> [s \in Slots |-> 0],
        ring |-> <<>>, next |-> 0, carried |-> Empty, cred |-> mem[i], own |-> {p \in Src : asg[p] = i},
        read |-> [p \in Src |-> IF asg[p] = i /\ ~Start THEN 1 ELSE 0],
        look |-> {}, kept |-> FALSE, left |-> FALSE]]
  /\ used = [faults |-> 0, kicks |-> 0, moves |-> 0, news |-> 0]
  /\ step = [do |-> "Init"]

All == \A o \in Out, p \in Src, k \in 1..N : k \in Mute \/ In(o, p, k)
Done == All /\ UNCHANGED <<vars, step>>   \* any other state without a step is a deadlock

Steps == Arrive \/ Marker \/ Begin \/ Produce \/ TxnOffsetCommit \/ EndTxn \/ Carry \/ Settle
         \/ Fence \/ TakeName \/ Join \/ Fetch \/ Look \/ CommitStart \/ Lost \/ TakeOver \/ Hear
Next == Steps \/ TimeOut \/ Die \/ Kick \/ Bystander \/ Move \/ Done
Spec == Init /\ [][Next]_<<vars, step>>
Fair == Spec /\ WF_vars(Steps)
Delivered == <>All

\* Counters count only as equal or not: a credential or an epoch that is out of date stays so.
View ==
  LET sealed(l) == [k \in 1..Len(l) |-> IF l[k].done THEN [l[k] EXCEPT !.id = 0] ELSE l[k]]
      req(m) == IF m.kind = "plain" THEN <<m.i, m.at>> ELSE IF m.kind = "end" THEN <<m.id>> ELSE <<m.i, m.id, m.at>>
      cred(i, x) == <<x.member = mem[i].member, x.generation = mem[i].generation, x.member = proc[i].cred.member, x.generation = proc[i].cred.generation,
                      x.lost = proc[i].cred.lost, x.revoked = proc[i].cred.revoked>>
      of(i) == LET c == proc[i]  gone == ~c.up /\ ~c.kept IN
        <<c.up, c.slot, c.next, c.look, c.kept, c.left, c.read, IF gone THEN {} ELSE c.own, cred(i, c.cred),
          {s \in Slots : c.slot[s] # StateFailed /\ c.epoch[s] = txn[Id(i, s)].epoch},
          c.carried.at, DOMAIN c.carried.at # {} /\ c.carried.again, IF DOMAIN c.carried.at = {} THEN <<>> ELSE cred(i, c.carried.cred),
          [k \in 1..Len(c.ring) |-> <<c.ring[k].slot, c.ring[k].todo, c.ring[k].handed, c.ring[k].repeated, c.ring[k].late,
                                      c.ring[k].at, cred(i, c.ring[k].cred)>>]>>
  IN <<[d \in Ids |-> <<txn[d].phase, txn[d].parts>>], [o \in Out |-> sealed(out[o])], sealed(pos), {req(m) : m \in wire},
       [i \in Inst |-> mem[i].generation # 0], asg, [i \in Inst |-> of(i)], used>>
=============================================================================
