package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
)

// CacheVariable names the environment variable that moves the folder of the
// fetched jars.
const CacheVariable = "KAFKA_TEST_CACHE"

// slf4jVersion is the binding that matches the slf4j-api 1.7 both supported
// Kafka versions depend on. Without a binding Kafka's log would be dropped.
const slf4jVersion = "1.7.36"

// dependencyPlugin is pinned: unpinned, the goal's behaviour would follow the
// version of Maven installed.
const dependencyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

var pom = template.Must(template.New("pom").Parse(`<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{{.Kafka}}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{{.SLF4J}}</version>
    </dependency>
  </dependencies>
</project>
`))

// CacheDir returns the folder that holds one subfolder of jars per Kafka
// version: $KAFKA_TEST_CACHE, or .cache/kafka beside the go.mod above the
// working directory.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".cache", "kafka"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory: set %s to a folder for Kafka's jars", CacheVariable)
		}
		dir = parent
	}
}

// Fetch makes sure that the jars of a Kafka version are in the cache and
// returns their folder. It is atomic (a broken download leaves nothing that
// looks whole) and safe to call from several processes at once.
func Fetch(ctx context.Context, version string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, version)
	if whole(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, version+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if whole(dir) { // another process was quicker
		return dir, nil
	}
	return dir, download(ctx, cache, dir, version)
}

// whole tells whether a folder holds all jars: it only gets its name by the
// rename at the end of download.
func whole(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func download(ctx context.Context, cache, dir, version string) (err error) {
	work, err := os.MkdirTemp(cache, version+".part-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	f, err := os.Create(filepath.Join(work, "pom.xml"))
	if err != nil {
		return err
	}
	if err := pom.Execute(f, struct{ Kafka, SLF4J string }{version, slf4jVersion}); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	jars := filepath.Join(work, "jars")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", dependencyPlugin, "-DincludeScope=runtime", "-DoutputDirectory="+jars)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s with mvn: %w\n%s", version, err, strings.TrimSpace(string(out)))
	}
	core := filepath.Join(jars, "kafka_2.13-"+version+".jar")
	if _, err := os.Stat(core); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s with mvn: it ended well but left no core jar: %w", version, err)
	}
	return os.Rename(jars, dir)
}

// lock takes an exclusive lock between processes; the kernel drops it when
// the holder dies, so no stale lock is possible.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// Closing drops the lock; there is nothing to do about an error of it.
	return func() { _ = f.Close() }, nil
}
