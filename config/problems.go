package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	// Variable is the name of the environment variable.
	Variable string
	// Message holds the value (a secret masked), what is wrong with it, and the remedy.
	Message string
}

// String returns the problem on one line.
func (p Problem) String() string { return p.Variable + ": " + p.Message }

// Problems is the error of a configuration that cannot work. It holds everything that is wrong, not just the
// first thing found. The process should end with status 78 (EX_CONFIG).
type Problems struct {
	List []Problem
	// Read is the configuration as far as it could be read, for who wants to look further than its problems: what could
	// not be read is zero, and what breaks a law is as it was given. Nil if nothing was read.
	Read *Config
}

// Spare says whether there is a configuration, and nothing is wrong with those variables. A name that ends with an
// underscore stands for all that begin so.
func (p *Problems) Spare(variables ...string) bool {
	return p.Read != nil && !slices.ContainsFunc(p.List, func(problem Problem) bool {
		return slices.ContainsFunc(variables, func(v string) bool {
			return problem.Variable == v || strings.HasSuffix(v, "_") && strings.HasPrefix(problem.Variable, v)
		})
	})
}

// Error returns a heading and one line for each problem.
func (p *Problems) Error() string {
	var b strings.Builder
	if len(p.List) == 1 {
		b.WriteString("bad configuration, 1 problem:")
	} else {
		fmt.Fprintf(&b, "bad configuration, %d problems:", len(p.List))
	}
	for _, problem := range p.List {
		b.WriteString("\n  ")
		b.WriteString(problem.String())
	}
	return b.String()
}

// report collects problems while a configuration is examined.
type report struct {
	list []Problem
	bad  map[string]bool
}

// add notes what is wrong with a variable, which must not be judged further.
func (r *report) add(variable, format string, args ...any) {
	// A value could hold line breaks, and a problem is one line.
	message := strings.NewReplacer("\r", " ", "\n", " ").Replace(fmt.Sprintf(format, args...))
	r.list = append(r.list, Problem{Variable: variable, Message: message})
	r.bad[variable] = true
}

// usable says whether nothing is known against any of the variables: a law over a value that could not be read
// would only add noise.
func (r *report) usable(variables ...string) bool {
	for _, v := range variables {
		if r.bad[v] {
			return false
		}
	}
	return true
}
