package page

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// causesText says why a cell is lost: "key: cause", one a line; lines that begin with # are comments. The page cannot
// be written while a lost cell has no cause.
//
//go:embed causes.txt
var causesText string

// causes are what causesText says, by the key of the cell.
type causes map[string]string

func parseCauses(text string) (causes, error) {
	all := causes{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, cause, ok := strings.Cut(line, ": ")
		if cause = strings.TrimSpace(cause); !ok || cause == "" {
			return nil, fmt.Errorf("causes.txt line %d: want \"key: cause\"", i+1)
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("causes.txt line %d: %q has a cause already", i+1, key)
		}
		all[key] = cause
	}
	return all, nil
}

// lost are the cells that are not met, each with its cause. One without is an error that names them all.
func (c causes) lost(cells []cell) (table, error) {
	t := table{{"lost", "measured", "against", "cause"}}
	var without []string
	for _, one := range cells {
		if one.met {
			continue
		}
		cause, ok := c[one.key]
		if !ok {
			without = append(without, fmt.Sprintf("%s: (%s; aimed at: %s)", one.key, one.measured, one.target))
		}
		t = append(t, []string{one.what, one.measured, one.target, cause})
	}
	if len(without) > 0 {
		slices.Sort(without)
		return nil, fmt.Errorf("test/bench/page/causes.txt has no cause of\n%s", strings.Join(without, "\n"))
	}
	return t, nil
}
