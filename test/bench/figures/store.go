package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Part is one interleaved run of the benchmark: what it found and what it was found on.
type Part struct {
	Name     string            `json:"part"`
	Date     string            `json:"date"` // day
	Machine  string            `json:"machine"`
	Kafka    string            `json:"kafka"`
	Bridge   string            `json:"bridge"`
	Go       string            `json:"go"`
	Flags    string            `json:"flags,omitempty"` // those that differ from the defaults
	Seconds  float64           `json:"seconds"`         // that the part took
	Variants map[string]string `json:"variants"`        // what each is
	Runs     Set               `json:"-"`
}

// Store is what a file keeps: the newest run of every part.
type Store struct{ Parts []Part }

// Part is the part of this name; ok is false if it has not run.
func (s *Store) Part(name string) (p Part, ok bool) {
	for _, p := range s.Parts {
		if p.Name == name {
			return p, true
		}
	}
	return Part{Name: name}, false
}

// Put replaces what the store had of a part.
func (s *Store) Put(p Part) {
	for i := range s.Parts {
		if s.Parts[i].Name == p.Name {
			s.Parts[i] = p
			return
		}
	}
	s.Parts = append(s.Parts, p)
}

// stored is a Part in its file, its runs included.
type stored struct {
	Part
	Runs []Run `json:"runs"`
}

// Load reads a file; one that does not exist is an empty store.
func Load(file string) (*Store, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return &Store{}, nil
	}
	if err != nil {
		return nil, err
	}
	var all []stored
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s := &Store{}
	for _, one := range all {
		one.Part.Runs = one.Runs
		s.Parts = append(s.Parts, one.Part)
	}
	return s, nil
}

// Save writes the file in one step: a part that took minutes is not lost to a full disk or an interruption.
func (s *Store) Save(file string) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Chmod(0o644), part.Close()); err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

// encode puts each run on a line of its own, for whoever compares two versions of the file.
func (s *Store) encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("[\n")
	parts := slices.Clone(s.Parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for i, p := range parts {
		head, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		b.Write(head[:len(head)-1])
		b.WriteString(",\"runs\":[")
		for k, r := range p.Runs {
			line, err := json.Marshal(r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name(), err)
			}
			if k > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n")
			b.Write(line)
		}
		b.WriteString("]}")
		if i < len(parts)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	return b.Bytes(), nil
}
