//go:build !crashpoints

package txn

import "github.com/twmb/franz-go/pkg/kgo"

// crashOptions is empty in this build; see internal/crashpoint.
func crashOptions() []kgo.Opt { return nil }
