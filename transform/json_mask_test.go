package transform

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestMaskHash computes what the documentation promises, by itself.
func TestMaskHash(t *testing.T) {
	const secret = "0123456789abcdef"
	for content, key := range map[string]string{secret: secret, secret + "\n": secret, secret + "\r\n": secret, secret + "\n\n": secret + "\n", " " + secret: " " + secret} {
		chain := chainOf(t, "json_mask(a, secret: "+fileWith(t, content)+")")
		for raw, hashed := range map[string]string{`"4111"`: "4111", `"\u00e9\n"`: "é\n", `4111`: "4111", `1.10`: "1.10", `{ "b":1}`: `{ "b":1}`, `null`: "null", "\"\xff\"": "\xff"} {
			out, err := chain.Apply(&Record{Value: []byte(`{"a":` + raw + `}`)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(hashed))
			if want := `{"a":"` + hex.EncodeToString(mac.Sum(nil)) + `"}`; string(out[0].Value) != want {
				t.Errorf("%s with the file %q became %s, want %s", raw, content, out[0].Value, want)
			}
		}
	}
}

// TestMaskSecretIsReadOnce: chains that are made after the file has changed hash as those
// before, all at once; or a replayed epoch would be written differently.
func TestMaskSecretIsReadOnce(t *testing.T) {
	path := fileWith(t, "the first secret, long enough")
	spec := parseWith(t, registered, "json_mask(a, secret: "+path+")")
	in := Record{Value: []byte(`{"a":"4111"}`)}
	want, err := spec.New().Apply(&in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another secret, long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	var lanes sync.WaitGroup
	for range 4 {
		lanes.Go(func() {
			chain := spec.New()
			for range 100 {
				if out, err := chain.Apply(&in, nil); err != nil || string(out[0].Value) != string(want[0].Value) {
					t.Errorf("became %s, %v", out[0].Value, err)
					return
				}
			}
		})
	}
	lanes.Wait()
}

// TestMaskSecretStaysSecret: messages about the file say nothing of what is in it.
func TestMaskSecretStaysSecret(t *testing.T) {
	for _, content := range []string{"hunter2", "hunter2\n", "", strings.Repeat("hunter2", 10_000)} {
		_, err := Parse("json_mask(a, secret: " + fileWith(t, content) + ")")
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.20q: %v", content, err)
		}
	}
}
