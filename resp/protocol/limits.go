package protocol

// Limits bound what one client may send. All must be set.
type Limits struct {
	Buffer  int // bytes of a Reader's buffer while requests are small
	Request int // bytes of one request, not below Buffer
	Args    int // arguments of one request, with the command's name
	Bulk    int // bytes of one argument
	Inline  int // bytes of an inline request; not more than Buffer
}
