package offsets

import (
	"fmt"
	"slices"
	"strings"
)

// mostNamed bounds how many partitions one error message spells out: a group may own thousands, and a line of
// log has an end.
const mostNamed = 8

// partitionErrors is many partitions' errors as one, on one line.
type partitionErrors []error

// joinErrors gives nil for no errors. It sorts them by text, for they come out of maps.
func joinErrors(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return partitionErrors(errs)
}

func (p partitionErrors) Error() string {
	texts := make([]string, 0, mostNamed)
	for _, err := range p[:min(len(p), mostNamed)] {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ") + andMore(len(p), "; ")
}

// Unwrap gives all of them, named in the text or not.
func (p partitionErrors) Unwrap() []error { return p }

// listSome spells out the first few names.
func listSome(names []string) string {
	return strings.Join(names[:min(len(names), mostNamed)], ", ") + andMore(len(names), " ")
}

// andMore says how many of n names were left out.
func andMore(n int, separator string) string {
	if n <= mostNamed {
		return ""
	}
	return fmt.Sprintf("%sand %d more", separator, n-mostNamed)
}
