package audit

// Records of two source partitions may look alike: the same tombstone in two topics, say. If both are next, and the
// target has one, it does not matter which of them it is, but it matters what may follow. So neither is taken: the
// target is owed for, and what comes next settles the account.
//
//   - The same again: one more of them has been taken.
//   - What stands second in one of the queues: that one has been taken.
//   - The head of another queue: that says nothing, and the account stays open.
//   - Anything else does not fit, and then it is not known what did.

// tie is an open account: queues whose heads are alike, of which some have been taken.
type tie struct {
	item
	queues []int
	owed   int // fewer than queues
}

// stepTied compares a record while an account is open. All queues have heads.
func (m *merge) stepTied(t *target, it *item) bool {
	x := t.tie
	if it.hash == x.hash && it.time == x.time {
		for i, q := range t.queues {
			if q.len() == 0 || !x.same(&q.items[q.head]) {
				continue
			}
			if !x.holds(i) {
				x.queues = append(x.queues, i)
			}
			if q.len() == 1 && !m.sources[i].ended {
				m.wants[i] = true
				return false
			}
			if q.len() > 1 && x.same(&q.items[q.head+1]) {
				t.ambiguous = true // two of one queue or one of two: too much to keep apart
			}
		}
		if x.owed++; x.owed == len(x.queues) {
			m.untie(t)
		}
		return true
	}
	chosen, second, several := -1, false, false
	for i, q := range t.queues {
		place := q.head
		if x.holds(i) {
			if q.len() == 1 && !m.sources[i].ended {
				m.wants[i] = true
				return false
			}
			place++
		}
		if place < len(q.items) && it.same(&q.items[place]) {
			several = several || chosen >= 0
			chosen, second = i, x.holds(i)
		}
	}
	if chosen < 0 || several {
		m.untie(t)
		t.ambiguous = true
		return m.step(t, it)
	}
	if second {
		x.drop(chosen)
		m.match(t, chosen, &x.item)
		if x.owed--; x.owed == 0 {
			t.tie = nil
		}
	}
	m.match(t, chosen, it)
	return true
}

func (x *tie) holds(i int) bool {
	for _, k := range x.queues {
		if k == i {
			return true
		}
	}
	return false
}

func (x *tie) drop(i int) {
	for k, have := range x.queues {
		if have == i {
			x.queues = append(x.queues[:k], x.queues[k+1:]...)
			return
		}
	}
}

// untie closes the account: it takes the heads of as many queues as are owed for, those first that have to have an
// output. Which of them is left is not known, so none of them counts as verified if one is.
func (m *merge) untie(t *target) {
	x := t.tie
	t.tie = nil
	due := func(i int) bool {
		q := t.queues[i]
		return q.items[q.head].offset < m.sources[i].committed
	}
	for _, first := range []bool{true, false} {
		for _, i := range x.queues {
			q := t.queues[i]
			if q.len() == 0 || !x.same(&q.items[q.head]) || due(i) != first {
				continue
			}
			if x.owed > 0 {
				x.owed--
				m.sources[i].suspect = q.items[q.head].offset
				m.match(t, i, &x.item)
			} else if first {
				for _, k := range x.queues {
					m.sources[k].first = min(m.sources[k].first, m.sources[k].suspect)
				}
				m.sources[i].first = min(m.sources[i].first, q.items[q.head].offset)
			}
		}
	}
}
