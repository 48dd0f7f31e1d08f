package txn

import (
	"fmt"
	"strconv"
	"strings"
)

// maxInstance is the longest group.instance.id that a broker takes (JoinGroupRequest.validateGroupInstanceId).
const maxInstance = 249

// ID names one slot of one instance of one pipeline. Its text, prefix.instance.slot, is the transactional id.
//
// Whoever initialises a transactional id fences its present owner, so the text must say without doubt whose it
// is. It is read from the right: the slot is one digit, an instance holds no dot, and all the rest has to equal
// the prefix. Thus prefixes may hold dots, and the ids of app1 are never taken for those of app10 or of app.
type ID struct {
	// Prefix belongs to one pipeline alone (default: its group id). It is not empty.
	Prefix string
	// Instance is the process's group.instance.id (ValidInstance).
	Instance string
	// Slot is 0 to 9; we use 0 and 1. Others come from another layout of the same pipeline.
	Slot int
}

// String gives the transactional id.
func (id ID) String() string {
	return id.Prefix + "." + id.Instance + "." + strconv.Itoa(id.Slot)
}

// ParseID reads a transactional id of the given prefix. Everything else is foreign (false): an id of another
// prefix, a longer slot, an instance that ValidInstance refuses. No id belongs to an empty prefix.
func ParseID(prefix, s string) (ID, bool) {
	head, slot, ok := cutLast(s)
	if !ok || len(slot) != 1 || slot[0] < '0' || slot[0] > '9' {
		return ID{}, false
	}
	head, instance, ok := cutLast(head)
	if !ok || head != prefix || prefix == "" || ValidInstance(instance) != nil {
		return ID{}, false
	}
	return ID{Prefix: prefix, Instance: instance, Slot: int(slot[0] - '0')}, true
}

// cutLast splits at the last dot.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// ValidInstance says why a name cannot be an instance id, or nil. It is the middle of the transactional ids, where
// a dot would make the parts ambiguous, and the group.instance.id, for which a broker takes letters, digits and
// "._-", 249 at most.
func ValidInstance(name string) error {
	if name == "" {
		return fmt.Errorf("instance id is empty; give each copy of the bridge a name of its own that outlives a restart")
	}
	if len(name) > maxInstance {
		return fmt.Errorf("instance id %q is %d characters long; use at most %d", name, len(name), maxInstance)
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		case r == '.':
			return fmt.Errorf("instance id %q holds a dot, which separates the parts of a transactional id; use the first label of a host name", name)
		default:
			return fmt.Errorf("instance id %q holds %q; use letters, digits, '_' and '-'", name, r)
		}
	}
	return nil
}
