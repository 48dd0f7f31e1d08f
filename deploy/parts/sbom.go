package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// The part of CycloneDX 1.6 that we write (https://cyclonedx.org/docs/1.6/json/).
type (
	document struct {
		Schema     string      `json:"$schema"`
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Serial     string      `json:"serialNumber"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Timestamp string     `json:"timestamp,omitempty"`
		Component component  `json:"component"`
		Settings  []property `json:"properties"`
	}
	component struct {
		Kind       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Hashes     []digest   `json:"hashes,omitempty"`
		Licences   []licence  `json:"licenses,omitempty"`
		Purl       string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	digest struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licence struct {
		Expression string `json:"expression"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// list is the SBOM. It has no graph: a binary does not say which module asked for which.
func (b *binary) list(version, date string) ([]byte, error) {
	self := component{
		Kind: "application", Name: b.main, Version: version,
		Purl:   fmt.Sprintf("pkg:golang/%s@%s?goarch=%s&goos=%s", b.main, version, b.goarch, b.goos),
		Hashes: []digest{{"SHA-256", hex.EncodeToString(b.sum[:])}},
	}
	self.Ref = self.Purl
	if _, err := time.Parse(time.RFC3339, date); err != nil {
		date = "" // what is not built from a repository has no time
	}
	d := document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial: b.serial(),
		Metadata: metadata{Timestamp: date, Component: self, Settings: []property{
			{"go:version", b.toolchain}, {"go:os", b.goos}, {"go:arch", b.goarch},
		}},
		Components: []component{},
	}
	for _, p := range b.parts {
		c := component{
			Kind: "library", Name: p.name, Version: p.version, Purl: "pkg:golang/" + p.name + "@" + p.version,
			Licences: []licence{{p.licence}},
		}
		c.Ref = c.Purl
		if p.sum != "" {
			// A hash over a list of hashes (golang.org/x/mod/sumdb/dirhash): no file has it, so it is none of Hashes.
			c.Properties = []property{{"go:sum", p.sum}}
		}
		d.Components = append(d.Components, c)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// serial is a UUID of version 8 (RFC 9562, section 5.8) made of the binary's hash: the same binary has the same list.
func (b *binary) serial() string {
	id := [16]byte(b.sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
