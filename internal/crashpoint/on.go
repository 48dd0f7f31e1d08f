//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Armed tells the builds apart.
const Armed = true

var (
	known = Points()
	point string       // where to die
	left  atomic.Int64 // arrivals until then
)

func init() {
	told := os.Getenv(Variable)
	if told == "" {
		return
	}
	at := strings.LastIndexByte(told, ':')
	if at < 0 {
		panic(fmt.Sprintf("%s=%q: want point:n", Variable, told))
	}
	n, err := strconv.ParseInt(told[at+1:], 10, 64)
	if err != nil || n < 1 || !slices.Contains(known, told[:at]) {
		panic(fmt.Sprintf("%s=%q: want point:n, with n from 1 and a point of %q", Variable, told, known))
	}
	point = told[:at]
	left.Store(n)
}

// At is a point. It does not return when it is time to die.
func At(name string) {
	if !slices.Contains(known, name) {
		panic(fmt.Sprintf("crash point %q is not in the table", name))
	}
	if name != point || left.Add(-1) != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "dies at %s\n", name)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // nothing more happens here, however long the signal takes
}

// Step is the point before or after a transition of a slot's state.
func Step[S, E fmt.Stringer](from S, event E, when string) {
	At(fmt.Sprintf("slot: %s %s, %s", from, event, when))
}
