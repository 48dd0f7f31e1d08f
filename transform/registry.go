package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Definition describes a transform to the parser and to people.
type Definition struct {
	Name    string // as written in an expression: lower-case letters, digits, underscores
	Usage   string // its call with the argument named, such as "route(topic)"
	Doc     string // plain sentences; the first is shown in lists
	Example string // an expression that Parse accepts

	// ReadsFile says that New itself reads the file that an argument beginning with @ names:
	// it is no text, or more follows.
	ReadsFile bool

	// New makes an instance for one chain. It gets the argument as it is written, without
	// the outer parentheses and the space around it, or, for @path, what stands in that
	// file, and validates all of it: an error names the value and the remedy, and errAt
	// says where in the argument it is. Files are read here and nowhere else. New may be
	// called by several goroutines at once.
	New func(arg string) (Transform, error)

	// NewWith takes the place of New for a transform that asks something outside. It only
	// keeps the environment: a constructor runs also where nothing outside is meant to be
	// asked, such as in the command that shows the configuration.
	NewWith func(arg string, e *Environment) (Transform, error)
}

// Summary is the first sentence of Doc.
func (d Definition) Summary() string {
	first, _, more := strings.Cut(d.Doc, ". ")
	if more {
		return first + "."
	}
	return first
}

// build calls New and turns its panic into an error: a library that panics on a bad
// argument shall give a message about the expression, not a stack at start-up.
func (d Definition) build(arg string, e *Environment) (t Transform, err error) {
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, fmt.Errorf("constructor panicked: %v", v)
		}
	}()
	if d.NewWith != nil {
		t, err = d.NewWith(arg, e)
	} else {
		t, err = d.New(arg)
	}
	if err == nil && t == nil {
		return nil, errors.New("constructor returned no transform")
	}
	return t, err
}

// catalog holds definitions by name. Tests parse with catalogs of their own.
type catalog map[string]Definition

// registered is filled by the init functions of this package and only read afterwards.
var registered = catalog{} //nolint:gochecknoglobals // the factory map: the one place a transform's file announces itself

// Register adds a transform to those that expressions may name. It is called from init
// only and panics if the definition is incomplete or its name is taken, since both are
// mistakes of the programmer.
func Register(d Definition) { registered.add(d) }

// Definitions returns the registered transforms sorted by name.
func Definitions() []Definition {
	all := make([]Definition, 0, len(registered))
	for _, name := range registered.names() {
		all = append(all, registered[name])
	}
	return all
}

func (c catalog) add(d Definition) {
	switch {
	case !validName(d.Name):
		panic(fmt.Sprintf("transform: %q is no valid name: use lower-case letters, digits and underscores, a letter first", d.Name))
	case d.Doc == "" || d.Example == "" || (d.New == nil) == (d.NewWith == nil):
		panic(fmt.Sprintf("transform: the definition of %s lacks Doc, Example, or one of New and NewWith", d.Name))
	case !strings.HasPrefix(d.Usage, d.Name):
		panic(fmt.Sprintf("transform: the usage %q of %s does not begin with its name", d.Usage, d.Name))
	}
	if _, taken := c[d.Name]; taken {
		panic(fmt.Sprintf("transform: %s is registered twice", d.Name))
	}
	c[d.Name] = d
}

func validName(name string) bool {
	return name != "" && 'a' <= name[0] && name[0] <= 'z' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func (c catalog) names() []string { return slices.Sorted(maps.Keys(c)) }

// nearest returns the known name closest to a misspelt one, or "" if none is close enough
// to be meant. Hyphens and capitals do not count as differences.
func (c catalog) nearest(name string) string {
	asked := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	best, bestDistance := "", len(asked)/3+2 // one error in three characters, and one more
	for _, known := range c.names() {
		distance := editDistance(asked, known)
		if asked != "" && strings.HasPrefix(known, asked) {
			distance = min(distance, 1) // the beginning of a name is most often meant as the name
		}
		if distance < bestDistance {
			best, bestDistance = known, distance
		}
	}
	return best
}

// editDistance is Levenshtein's distance between a and b in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
