// Command scrape measures what it costs a bridge at full load that /metrics is read, on a real Apache Kafka that it starts
// itself:
//
//	make bench-scrape
//	make bench-scrape SCRAPEFLAGS='-rounds 3 -partitions 100'
//
// The bridge copies the same records again and again: left alone, scraped once a second, and a hundred times a second, in
// turn. From the last the cost of one scrape can be told, which is too small to be seen at once a second.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "scrape:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	records    int64
	size       int
	partitions int
	rounds     int
	binary     string
}

// often is the pause between scrapes by which the cost of one is told.
const often = 10 * time.Millisecond

// pauses are the variants: zero is nobody who scrapes.
var pauses = []time.Duration{0, time.Second, often}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("scrape", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Int64Var(&o.records, "records", 10_000_000, "records")
	flags.IntVar(&o.size, "size", 100, "bytes of a value")
	flags.IntVar(&o.partitions, "partitions", 8, "partitions of both topics")
	flags.IntVar(&o.rounds, "rounds", 5, "copies of each kind")
	flags.StringVar(&o.binary, "bridge", "bin/eosbridge", "the binary (make build)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "starting Apache Kafka %s\n", kafka.V44)
	c, err := kafka.Run(ctx, kafka.Options{
		Version: kafka.V44,
		JVM:     []string{"-server", "-Xms1g", "-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := load(ctx, cl, o); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	r := rig{o: o, bootstrap: c.Bootstrap(), adm: kadm.NewClient(cl), log: stderr}
	if _, err := r.copy(ctx, 0); err != nil { // the broker's compiler has then seen the requests
		return err
	}
	seen := map[time.Duration][]sample{}
	for round := range o.rounds {
		for i := range pauses {
			pause := pauses[(round+i)%len(pauses)]
			s, err := r.copy(ctx, pause)
			if err != nil {
				return err
			}
			seen[pause] = append(seen[pause], s)
		}
	}
	return report(stdout, o, seen)
}

// load writes the input.
func load(ctx context.Context, cl *kgo.Client, o options) error {
	if answer, err := kadm.NewClient(cl).CreateTopic(ctx, int32(o.partitions), 1, nil, "in"); err != nil || answer.Err != nil {
		return errors.Join(err, answer.Err)
	}
	var failed error // written by one goroutine of the client, read after it has flushed
	value := bytes.Repeat([]byte("x"), o.size)
	for i := range o.records {
		key := strconv.AppendInt(nil, i, 10)
		cl.Produce(ctx, &kgo.Record{Topic: "in", Partition: int32(i % int64(o.partitions)), Key: key, Value: value}, func(_ *kgo.Record, err error) {
			failed = cmp.Or(failed, err)
		})
	}
	return errors.Join(cl.Flush(ctx), failed)
}

type rig struct {
	o         options
	bootstrap string
	adm       *kadm.Client
	log       io.Writer
	copies    int
}

// sample is one copy.
type sample struct {
	took, cpu time.Duration // of the whole life of the process
	answers   []time.Duration
	bytes     int // of the last answer
}

// copy has a bridge copy everything into a topic of its own, with a group of its own.
func (r *rig) copy(ctx context.Context, pause time.Duration) (s sample, err error) {
	r.copies++
	out, address := fmt.Sprintf("out-%d", r.copies), ""
	if address, err = freeAddress(ctx); err != nil {
		return s, err
	}
	if answer, err := r.adm.CreateTopic(ctx, int32(r.o.partitions), 1, nil, out); err != nil || answer.Err != nil {
		return s, errors.Join(err, answer.Err)
	}
	cmd := exec.CommandContext(ctx, r.o.binary, "run", "--until-end")
	cmd.Stderr = r.log
	cmd.Env = []string{
		"KAFKA_BOOTSTRAP_SERVERS=" + r.bootstrap, "BRIDGE_INPUT_TOPICS=in", "BRIDGE_OUTPUT_TOPIC=" + out, "BRIDGE_GROUP_ID=" + out,
		"BRIDGE_INSTANCE_ID=a", "BRIDGE_HTTP_ADDR=" + address, "BRIDGE_PASS_THROUGH=off", "BRIDGE_COMPRESSION=none", "LOG_LEVEL=warn",
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	over := make(chan struct{})
	scraped := make(chan struct{})
	go func() { // ended by over
		defer close(scraped)
		s.answers, s.bytes = scrape(ctx, "http://"+address+"/metrics", pause, over)
	}()
	err = cmd.Wait()
	s.took = time.Since(began)
	close(over)
	<-scraped
	if err != nil {
		return s, fmt.Errorf("bridge: %w", err)
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Fprintf(r.log, "every %s: %.1f s, CPU %.2f s, %d scrapes\n", pause, s.took.Seconds(), s.cpu.Seconds(), len(s.answers))
	if _, err := r.adm.DeleteTopic(ctx, out); err != nil {
		return s, err
	}
	return s, nil
}

// freeAddress is one of the loopback on which nothing listens now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// scrape reads as Prometheus does, and answers how long each answer took. The first tries come before the bridge listens.
func scrape(ctx context.Context, url string, pause time.Duration, over <-chan struct{}) (answers []time.Duration, size int) {
	if pause == 0 {
		return nil, 0
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return answers, size
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return answers, size
		}
		req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1")
		req.Header.Set("Accept-Encoding", "gzip")
		began := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			answers, size = append(answers, time.Since(began)), int(n)
		}
	}
}

// report prints the samples, the cost of one scrape, and its share.
func report(w io.Writer, o options, seen map[time.Duration][]sample) error {
	fmt.Fprintf(w, "%d records of %d B, %d partitions, %d rounds: median [range]\n", o.records, o.size, o.partitions, o.rounds)
	cpu, took := map[time.Duration]float64{}, map[time.Duration]float64{}
	scrapes := 0.0
	for _, pause := range pauses {
		var cpus, times, counts, answers []float64
		size := 0
		for _, s := range seen[pause] {
			cpus, times, counts = append(cpus, s.cpu.Seconds()), append(times, s.took.Seconds()), append(counts, float64(len(s.answers)))
			for _, a := range s.answers {
				answers = append(answers, a.Seconds()*1000)
			}
			size = max(size, s.bytes)
		}
		cpu[pause], took[pause], scrapes = median(cpus), median(times), median(counts)
		who := "left alone"
		if pause > 0 {
			who = fmt.Sprintf("every %s", pause)
		}
		fmt.Fprintf(w, "%-12s %.2f [%.2f-%.2f] CPU-s, %.1f s, %.0f scrapes", who, cpu[pause], slices.Min(cpus), slices.Max(cpus), took[pause], scrapes)
		if len(answers) > 0 {
			fmt.Fprintf(w, " of %d bytes, answered in %.2f ms, the slowest of a hundred in %.1f ms", size, median(answers), answers[len(answers)*99/100])
		}
		fmt.Fprintln(w)
	}
	// The last variant is the frequent one.
	each := (cpu[often] - cpu[0]) / scrapes
	_, err := fmt.Fprintf(w, "one scrape costs %.2f ms of CPU time: every second %.2f %% of a core, or of what the bridge uses %.2f %%; every 15 s %.3f %%, or %.3f %%\n",
		1000*each, 100*each, 100*each*took[0]/cpu[0], 100*each/15, 100*each*took[0]/cpu[0]/15)
	return err
}

// median sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}
