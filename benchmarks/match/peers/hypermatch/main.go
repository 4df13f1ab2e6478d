package main

import (
	"encoding/json"

	"github.com/SchwarzDigits/hypermatch/v2"
)

type adapter struct {
	matcher *hypermatch.HyperMatch[int]
	found   []int
}

func (a *adapter) add(number int, rule []byte) error {
	var conditions hypermatch.ConditionSet
	if err := json.Unmarshal(rule, &conditions); err != nil {
		return err
	}
	return a.matcher.AddRule(number, conditions)
}

func (a *adapter) match(event []byte) (int, error) {
	found, err := a.matcher.AppendMatchesJSON(a.found[:0], event)
	a.found = found
	return len(found), err
}

func main() {
	measure(&adapter{matcher: hypermatch.New[int]()})
}
