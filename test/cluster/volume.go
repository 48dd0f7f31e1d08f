package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Volume is a small file system in memory, mounted at a folder of its own.
type Volume struct{ dir string }

// NewVolume mounts a file system of so many MiB at dir, an empty folder; Close
// it.
func NewVolume(dir string, size int) (*Volume, error) {
	if err := run("mount", "-t", "tmpfs", "-o", "size="+strconv.Itoa(size)+"m", "eosbridge-test", dir); err != nil {
		return nil, err
	}
	return &Volume{dir: dir}, nil
}

// Dir is a folder on the volume.
func (v *Volume) Dir() string { return filepath.Join(v.dir, "data") }

func (v *Volume) ballast() string { return filepath.Join(v.dir, "ballast") }

// Fill takes all space that is left, to the last byte.
func (v *Volume) Fill() (err error) {
	f, err := os.Create(v.ballast())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, 64<<10)
	for {
		_, err := f.Write(block)
		switch {
		case err == nil:
		case !errors.Is(err, syscall.ENOSPC):
			return fmt.Errorf("fill %s: %w", v.dir, err)
		case len(block) == 1:
			return nil
		default:
			block = block[:len(block)/2]
		}
	}
}

// Free gives back what Fill took.
func (v *Volume) Free() error { return os.Remove(v.ballast()) }

// Close unmounts the volume, also if it is still in use: what is on it is gone
// with its last user.
func (v *Volume) Close() error { return run("umount", "-l", v.dir) }
