package proof

import (
	"errors"
	"slices"
	"testing"
	"testing/fstest"
)

// TestCatalogue reads a small repository: what is a test, where it runs, and which subtests it has.
func TestCatalogue(t *testing.T) {
	all, err := Tests(fstest.MapFS{
		"bridge/a_test.go": {Data: []byte(`package bridge
func TestDirect(t *testing.T) { kfake.NewCluster(); t.Run("a named part", nil) }
func TestThrough(t *testing.T) { w.world("Produce") }
func (r rig) world(s string) { deeper(); use(kmsg.EndTxn) }
func deeper() { kfake.NewCluster() }
func TestNone(t *testing.T) {}
func TestMain(m *testing.M) { kfake.NewCluster() }
func notATest() {}
`)},
		"bridge/product.go": {Data: []byte(`package bridge
func TestInTheProduct() {}
`)},
		"test/e2e/b_test.go": {Data: []byte(`package e2e
func TestBoth(t *testing.T) { onBoth(t) }
func onBoth(t *testing.T) { for _, v := range []string{kafka.V44, kafka.V39} { use(v) } }
var places = []place{{version: kafka.V39}}
func TestDefault(t *testing.T) { kafka.Start(t, kafka.Options{Nodes: 3}) }
func TestOld(t *testing.T) { kafka.Shared(t, kafka.V39) }
func TestTable(t *testing.T) { for _, p := range places { use(p) } }
func TestOne(t *testing.T) { if c.Version() == kafka.V39 { return }; kafka.Start(kafka.V44) }
`)},
		".cache/c_test.go": {Data: []byte(`not Go at all`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string][]string{
		"bridge.TestDirect": {Fake}, "bridge.TestDirect/a named part": {Fake}, "bridge.TestDirect/named": {Fake},
		"bridge.TestThrough": {Fake}, "bridge.TestThrough/Produce": {Fake}, "bridge.TestThrough/EndTxn": {Fake},
		"bridge.TestNone": nil, "e2e.TestBoth": {V39, V44}, "e2e.TestOne": {V44}, "e2e.TestTable": {V39}, "e2e.TestDefault": {V44}, "e2e.TestOld": {V39},
	} {
		test, err := all.Find(ref)
		if err != nil {
			t.Error(err)
		} else if !slices.Equal(test.Brokers, want) {
			t.Errorf("%s runs on %v, want %v", ref, test.Brokers, want)
		}
	}
	for _, ref := range []string{
		"bridge.TestGone", "bridge.TestMain", "bridge.notATest", "bridge.TestInTheProduct", "TestDirect", "bridge.TestDirect/another part", "",
	} {
		if _, err := all.Find(ref); !errors.Is(err, ErrNoTest) {
			t.Errorf("%q leads somewhere: %v", ref, err)
		}
	}
	if _, err := Tests(fstest.MapFS{"txn/a_test.go": {Data: []byte("package txn\nfunc (")}}); err == nil {
		t.Error("a file that is no Go: no error")
	}
}
