//go:build !race

package bridge

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/browser"
)

// screens is where TestPageInABrowser leaves its pictures:
//
//	go test ./bridge -run InABrowser -args -screens /tmp/screens
var screens = flag.String("screens", "", "write the screenshots of the status page into this directory")

// keepPicture writes a picture if asked to.
func keepPicture(t *testing.T, title string, picture []byte) {
	t.Helper()
	if *screens == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*screens, title+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPageInABrowser looks at the page as people do: on a phone and on a desk, by day and by night, in four states.
func TestPageInABrowser(t *testing.T) {
	b := browser.New(t)
	for name, word := range map[string]string{"healthy": "Ready", "recovering": "Recovering", "fenced": "Fenced", "failing": "Failing"} {
		server := httptest.NewServer(adminRoutes(scene(t, name)))
		for _, width := range []int{360, 1280} {
			backs := map[string]bool{}
			for _, scheme := range []string{"light", "dark"} {
				b.Look(width, scheme)
				b.Visit(server.URL)
				title := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				if words := browser.Evaluate[string](b, `document.querySelector('h1').innerText`); !strings.Contains(words, word) {
					t.Errorf("%s: headed %q", title, words)
				}
				for _, fault := range b.Faults() {
					t.Errorf("%s: %s", title, fault)
				}
				backs[browser.Evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
				keepPicture(t, title, b.Picture(3000))
			}
			if len(backs) != 2 {
				t.Errorf("%s: the same background by day and by night: %v", name, backs)
			}
		}
		server.Close()
	}
}

// TestPageIsAlive: the page follows the bridge, keeps what its reader has opened, and says when nothing answers.
func TestPageIsAlive(t *testing.T) {
	b := browser.New(t)
	from := scene(t, "healthy")
	server := httptest.NewServer(adminRoutes(from))
	defer server.Close()
	b.Look(1280, "light")
	b.Visit(server.URL)
	browser.Evaluate[bool](b, `document.getElementById('settings').open = true`)
	from.board.enter(StateStopping)
	if words := browser.Evaluate[string](b, `new Promise(found => new MutationObserver(() => {
		const h = document.querySelector('h1').innerText;
		if (!h.includes('Ready')) found(h);
	}).observe(document.body, {childList: true}))`); !strings.Contains(words, "Stopping") {
		t.Errorf("headed %q", words)
	}
	if !browser.Evaluate[bool](b, `document.getElementById('settings').open && document.title.startsWith('Stopping')`) {
		t.Error("what was open is closed, or the title is old")
	}
	server.CloseClientConnections()
	server.Close()
	if words := browser.Evaluate[string](b, `new Promise(found => {
		const stale = document.getElementById('stale');
		new MutationObserver(() => { if (!stale.hidden) found(stale.innerText) }).observe(stale, {attributes: true});
	})`); !strings.Contains(words, "No answer since") {
		t.Errorf("says %q", words)
	}
	keepPicture(t, "gone", b.Picture(3000))
}

// TestPageWithoutScripts: everything is there, and the page reloads itself.
func TestPageWithoutScripts(t *testing.T) {
	b := browser.New(t)
	server := httptest.NewServer(adminRoutes(scene(t, "healthy")))
	defer server.Close()
	b.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.Visit(server.URL)
	var root struct {
		Root struct {
			ID int `json:"nodeId"`
		} `json:"root"`
	}
	b.Call("DOM.getDocument", nil, &root)
	for selector, least := range map[string]int{"noscript > meta[http-equiv=refresh]": 1, "#epochs tbody tr": pageEpochs, ".timeline rect": pageTimeline} {
		var found struct {
			IDs []int `json:"nodeIds"`
		}
		b.Call("DOM.querySelectorAll", map[string]any{"nodeId": root.Root.ID, "selector": selector}, &found)
		if len(found.IDs) < least {
			t.Errorf("%d of %s", len(found.IDs), selector)
		}
	}
}
