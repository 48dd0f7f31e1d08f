package bridge

import "slices"

// verdict is the state of the process in one word, for people.
type verdict struct {
	word string
	text string // one sentence
	kind string // good, wait, bad or off: the colour
	sign string // the same for those who do not see the colour
}

// judge sums a picture and the checks of its health up. Ready is said only if /readyz and /livez pass.
func judge(s Status, checks []healthCheck) verdict {
	failed := func(name string) bool {
		return slices.ContainsFunc(checks, func(c healthCheck) bool { return c.name == name && c.reason != "" })
	}
	switch {
	case s.LastError != nil && s.LastError.Class == ClassFenced: // whatever the state: no session follows
		return verdict{"Fenced", "Another process has taken over our name. This one writes nothing any more.", "bad", "✕"}
	case s.State == StateStopped:
		return verdict{"Stopped", "Everything is settled or given up.", "off", "■"}
	case s.State == StateStopping:
		return verdict{"Stopping", "The last epoch is being settled; nothing is read any more.", "off", "■"}
	case failed("loop"):
		return verdict{"Stuck", "The loop makes no progress: a restart may help.", "bad", "✕"}
	case failed("commit"):
		return verdict{"Failing", "It cannot commit, and tries again. What it has written since the last commit is not visible.", "bad", "✕"}
	case failed("poll"):
		return verdict{"Failing", "It cannot read its input, and tries again.", "bad", "✕"}
	case s.State == StateRecovering:
		return verdict{"Recovering", "It asks the brokers what became of the last epoch, and reads nothing before it knows.", "wait", "↻"}
	case s.State == StateJoining:
		return verdict{"Joining", "It waits for the group to assign partitions.", "wait", "↻"}
	case s.assignedPartitions() == 0:
		return verdict{"Ready, standing by", "No partition is assigned to this copy: the others have all.", "good", "✓"}
	case s.CommitFailing != nil || s.PollFailing != nil:
		return verdict{"Ready, after a failure", "It runs again and has not committed yet.", "good", "✓"}
	default:
		return verdict{"Ready", "It reads " + plural(s.assignedPartitions(), "1 partition", "%d partitions") + " and commits.", "good", "✓"}
	}
}

// remedy says what to do about the last error, by its class.
func remedy(class string) string {
	switch class {
	case ClassFenced:
		return "Nothing, if a newer copy with this instance id has started: it does the work, and this process ends with status 75. " +
			"Else find the other process: every copy needs a BRIDGE_INSTANCE_ID, and every pipeline a BRIDGE_GROUP_ID and BRIDGE_TXN_PREFIX, of its own."
	case ClassFatal:
		return "Starting again will not help: mend what the message names, then start the process."
	case ClassAborted:
		return "Nothing, if it happens once: the epoch was rolled back and its records are read again. " +
			"If it goes on, look at what the message names, and at the brokers' logs at that time."
	default:
		return "Nothing, if it happens once: the answer of a broker is missing, and the bridge asks what became of the epoch before it reads on. " +
			"If it goes on, look at the network and at the brokers: the coordinators of the group and of the transactions have to answer."
	}
}

// outcomeText is the outcome of an epoch in words, with a sign in front so that no colour is needed.
func outcomeText(e EpochSummary) string {
	switch e.Outcome {
	case OutcomeAborted:
		return "✕ aborted: " + e.Class
	case OutcomeCarried:
		return "→ carried"
	default:
		return "✓ " + e.Outcome
	}
}
