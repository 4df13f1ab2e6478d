// Adds the rules of a file to a matcher, matches the events of another one on one thread, and prints what was
// measured as JSON. Next to this file stands the main.go of one matcher.
//
// Arguments: rules, events, seconds to measure, seconds the build may take, events whose matches are counted.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

type matcher interface {
	add(number int, rule []byte) error
	match(event []byte) (int, error)
}

type result struct {
	Added                int     `json:"added"`
	Built                bool    `json:"built"`
	BuildSeconds         float64 `json:"build_s"`
	BytesPerSubscription int64   `json:"bytes_per_subscription"`
	EventsPerSecond      float64 `json:"events_per_s"`
	MatchesPerEvent      float64 `json:"matches_per_event"`
	ProcessorShare       float64 `json:"processor_share"`
	CheckedMatches       int     `json:"checked_matches"`
}

func measure(m matcher) {
	runtime.GOMAXPROCS(1)
	rules, events := lines(os.Args[1]), lines(os.Args[2])
	seconds, buildSecondsMax := number(os.Args[3]), number(os.Args[4])
	checked := events[:min(int(number(os.Args[5])), len(events))]

	before := usedHeap()
	started := time.Now()
	for index, rule := range rules {
		fatal(m.add(index, rule))
		if time.Since(started).Seconds() > buildSecondsMax {
			show(result{Added: index + 1})
			return
		}
	}
	found := result{Added: len(rules), Built: true, BuildSeconds: time.Since(started).Seconds()}
	found.BytesPerSubscription = (usedHeap() - before) / int64(max(len(rules), 1))
	for _, event := range checked {
		found.CheckedMatches += matches(m, event)
	}
	run(m, events, seconds)
	run(m, events, seconds).into(&found)
	show(found)
}

type timing struct {
	events, matches    int
	elapsed, processor float64
}

func (t timing) into(found *result) {
	found.EventsPerSecond = float64(t.events) / t.elapsed
	found.MatchesPerEvent = float64(t.matches) / float64(t.events)
	found.ProcessorShare = t.processor / t.elapsed
}

func run(m matcher, events [][]byte, seconds float64) timing {
	var t timing
	before := processorSeconds()
	for started := time.Now(); t.elapsed < seconds; t.elapsed = time.Since(started).Seconds() {
		t.matches += matches(m, events[t.events%len(events)])
		t.events++
	}
	t.processor = processorSeconds() - before
	return t
}

func processorSeconds() float64 {
	var usage syscall.Rusage
	fatal(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func matches(m matcher, event []byte) int {
	found, err := m.match(event)
	fatal(err)
	return found
}

func usedHeap() int64 {
	runtime.GC()
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return int64(statistics.HeapAlloc)
}

func lines(name string) [][]byte {
	text, err := os.ReadFile(name)
	fatal(err)
	return bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	fatal(err)
	return value
}

func show(found result) {
	text, err := json.Marshal(found)
	fatal(err)
	fmt.Println(string(text))
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
