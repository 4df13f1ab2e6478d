package main

import "quamina.net/go/quamina"

type adapter struct {
	matcher *quamina.Quamina
}

func (a *adapter) add(number int, rule []byte) error {
	return a.matcher.AddPattern(number, string(rule))
}

func (a *adapter) match(event []byte) (int, error) {
	found, err := a.matcher.MatchesForEvent(event)
	return len(found), err
}

func main() {
	matcher, err := quamina.New(quamina.WithMediaType("application/json"))
	fatal(err)
	measure(&adapter{matcher: matcher})
}
