package replica

// Alarm is something that is wrong now, and will hurt if it lasts. It is there for as
// long as its cause, and no longer: whoever looks sees what is true.
type Alarm struct {
	Code     string // a stable name, to branch on: lower case and _
	Message  string // what is wrong, and what to do about it
	Refusing bool   // hits are refused meanwhile, or will be lost: they are better off at another node
}
