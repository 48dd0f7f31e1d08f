package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

const ownPrefix = "BRIDGE_"

// checkNames reports variables that look like ours and are not.
func checkNames(environ map[string]string, r *report) {
	known := make([]string, 0, 64)
	for _, v := range variables() {
		known = append(known, v.name)
		if v.secret() {
			known = append(known, v.name+fileSuffix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		value := strings.TrimSpace(environ[name])
		if strings.HasPrefix(name, "TARGET_KAFKA_") && value != "" {
			r.add(name, "not supported yet: input and output are topics of the same cluster; unset it")
			continue
		}
		if !strings.HasPrefix(strings.ToUpper(name), ownPrefix) || slices.Contains(known, name) {
			continue
		}
		if injected(name, value) {
			continue
		}
		if near := nearestVariable(name, known); near != "" {
			r.add(name, "unknown variable: did you mean %s? Rename it or unset it", near)
		} else {
			r.add(name, "unknown variable: unset it; 'eosbridge config docs' lists all")
		}
	}
}

// injected says whether a variable is one of those that Kubernetes puts into every container for a Service whose
// name begins with "bridge" (enableServiceLinks, on by default): none of them is ours, and the user did not write
// them.
func injected(name, value string) bool {
	plain := regexp.MustCompile(`^BRIDGE_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR))$`)
	if plain.MatchString(name) {
		return true
	}
	if !regexp.MustCompile(`^BRIDGE_([A-Z0-9_]+_)?PORT(_[0-9]+_(TCP|UDP|SCTP))?$`).MatchString(name) {
		return false
	}
	scheme, _, ok := strings.Cut(value, "://")
	return ok && (scheme == "tcp" || scheme == "udp" || scheme == "sctp")
}

// nearestVariable suggests a known variable, whichever prefix it has: BRIDGE_SASL_USERNAME was meant for KAFKA_.
func nearestVariable(name string, known []string) string {
	part := func(s string) string {
		_, rest, _ := strings.Cut(strings.ToUpper(s), "_")
		return rest
	}
	whole := map[string]string{}
	parts := make([]string, 0, len(known))
	for _, k := range known {
		if _, dup := whole[part(k)]; dup && !strings.HasPrefix(k, ownPrefix) {
			continue
		}
		whole[part(k)] = k
		parts = append(parts, part(k))
	}
	return whole[Nearest(part(name), parts)]
}

// Nearest returns the candidate that a mistyped word was most likely meant to be: the least number of inserted,
// deleted or changed letters, if that is no more than a third of the word, else one that begins with the word or
// that the word begins with. It returns the empty string if nothing is near.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", (len(word)+2)/3+1
	for _, c := range candidates {
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, c := range candidates {
		if c != "" && (strings.HasPrefix(c, word) || strings.HasPrefix(word, c)) {
			return c
		}
	}
	return ""
}

// distance is Levenshtein's, over bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
