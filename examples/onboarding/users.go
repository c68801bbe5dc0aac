package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sebbroker/seb/client"
)

// monthDays is the length of the month. Users sign up in its first half only.
const monthDays = 30

// action is an event that a user sends.
type action struct {
	due   time.Duration // since the start of the month
	event client.Event
}

// month generates the actions of users, the same ones for the same seed. Every event has an ID, so that it
// can be sent again.
func month(users int, seed uint64, day time.Duration) []action {
	var all []action
	for i := range users {
		u := user{Rand: rand.New(rand.NewPCG(seed, uint64(i))), id: fmt.Sprintf("user-%d", i), day: day}
		u.live()
		all = append(all, u.does...)
	}
	slices.SortStableFunc(all, func(a, b action) int { return int(a.due - b.due) })
	return all
}

type user struct {
	*rand.Rand
	id   string
	day  time.Duration
	does []action
}

// do adds an event unless the month is over.
func (u *user) do(day float64, name string, data map[string]any) {
	if day >= monthDays {
		return
	}
	text, _ := json.Marshal(data) // only numbers and texts, so it cannot fail
	u.does = append(u.does, action{
		due:   time.Duration(day * float64(u.day)),
		event: client.Event{Name: name, EntityID: u.id, Data: text, ID: fmt.Sprintf("%s-%d", name, len(u.does))},
	})
}

func (u *user) chance(p float64) bool            { return u.Float64() < p }
func (u *user) between(from, to float64) float64 { return from + (to-from)*u.Float64() }

func (u *user) live() {
	names := []string{"Ada", "Björn", "Chloé", `Dana "D"`, "Eşref", "Фёдор", "Grace"}
	since := u.between(0, monthDays/2)
	plan := "free"
	if u.chance(0.3) {
		plan = "pro"
	}
	u.do(since, "user_created", map[string]any{"name": names[u.IntN(len(names))], "plan": plan})
	if u.chance(0.6) {
		u.do(since+u.between(0, 10), "project_created", nil)
	}
	u.logIn(since)
	u.buy(since)
	if u.chance(0.15) {
		u.pay(since)
	}
}

// logIn generates frequent and rare logins. Some users come back after a week.
func (u *user) logIn(since float64) {
	gap, times := u.between(0.3, 1.8), 3+u.IntN(7)
	if u.chance(0.5) {
		gap, times = u.between(2, 6), 1+u.IntN(4)
	}
	at := since
	for range times {
		at += gap * u.between(0.5, 1.5)
		u.do(at, "login", nil)
	}
	if u.chance(0.3) {
		at += u.between(6, 11)
		u.do(at, "login", nil)
	}
}

func (u *user) buy(since float64) {
	at := since
	for range u.IntN(4) {
		at += u.between(0.2, 5)
		u.do(at, "cart_filled", map[string]any{"items": 1 + u.IntN(5)})
		if u.chance(0.6) {
			currency := "EUR"
			if u.chance(0.2) {
				currency = "USD"
			}
			at += u.between(0.01, 1.4)
			u.do(at, "purchase", map[string]any{"amount": 20 + u.IntN(200), "currency": currency})
		}
	}
}

func (u *user) pay(since float64) {
	at := since + u.between(1, 8)
	u.do(at, "payment_failed", map[string]any{"amount": 9})
	if u.chance(0.7) {
		u.do(at+u.between(0.02, 4), "payment_made", map[string]any{"amount": 9})
	}
}
