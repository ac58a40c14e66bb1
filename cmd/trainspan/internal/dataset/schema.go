package dataset

// Version is that of the schema. It changes when a column changes its meaning or
// goes; new columns may come at any time. The files have it as the metadata
// trainspan.schema.
const Version = "2"

// event is one row of the table events. What may be missing is a pointer: of
// optional values parquet-go v0.32.0 writes some nulls as zeros.
type event struct {
	Rank      *int32  `parquet:"rank,dict"`
	Attempt   *int32  `parquet:"attempt,dict"`
	Host      *string `parquet:"host,dict"`
	PID       int64   `parquet:"pid,dict"`
	TID       int64   `parquet:"tid,dict"`
	Phase     string  `parquet:"ph,dict"`
	Cat       string  `parquet:"cat,dict"`
	Name      string  `parquet:"name,dict"`
	Class     string  `parquet:"class,dict"`
	TS        int64   `parquet:"ts,delta,timestamp(microsecond)"`
	Dur       int64   `parquet:"dur_us"`
	Epoch     *int64  `parquet:"epoch,dict"`
	Step      *int64  `parquet:"step,dict"`
	ID        int64   `parquet:"id,delta"`
	Parent    int64   `parquet:"parent,delta"`
	OuterCat  *string `parquet:"outer_cat,dict"`
	OuterName *string `parquet:"outer_name,dict"`
	Outlasts  []part  `parquet:"outlasts,list"`
	Group     *string `parquet:"pg,dict"`
	File      *string `parquet:"file,dict"`
	Args      *string `parquet:"args"`
}

// part is how much of the time of a span of a name counts for another one.
type part struct {
	Cat  string `parquet:"cat,dict"`
	Name string `parquet:"name,dict"`
	Us   int64  `parquet:"us"`
}

// Step is one row of the table steps: a training step of one process, as trainspan
// steps shows it. Start is in microseconds.
type Step struct {
	Rank       *int32 `parquet:"rank,dict"`
	Attempt    int32  `parquet:"attempt,dict"`
	PID        int64  `parquet:"pid,dict"`
	Step       int64  `parquet:"step,delta"`
	Raw        *int64 `parquet:"raw_step,dict"`
	Epoch      *int64 `parquet:"epoch,dict"`
	Start      int64  `parquet:"ts,delta,timestamp(microsecond)"`
	Dur        *int64 `parquet:"dur_ns"`
	Rule       string `parquet:"rule,dict"`
	Data       int64  `parquet:"data_ns"`
	Copies     int64  `parquet:"copies_ns"`
	Forward    int64  `parquet:"forward_ns"`
	Backward   int64  `parquet:"backward_ns"`
	Optimizer  int64  `parquet:"optimizer_ns"`
	Comm       int64  `parquet:"comm_ns"`
	Checkpoint int64  `parquet:"checkpoint_ns"`
}

// stretch is one row of the table ledger.
type stretch struct {
	Rank     int32  `parquet:"rank,dict"`
	Attempt  int32  `parquet:"attempt,dict"`
	Category string `parquet:"category,dict"`
	Step     *int64 `parquet:"step,dict"`
	Start    int64  `parquet:"ts,delta,timestamp(microsecond)"`
	Dur      int64  `parquet:"dur_ns"`
}

// indexed is one row of the table runs: what one conversion wrote of an attempt.
type indexed struct {
	Attempt    *int32   `parquet:"attempt"`
	Ranks      []int32  `parquet:"ranks,list"` // ascending, those that are known
	Processes  int32    `parquet:"processes"`
	WorldSize  *int32   `parquet:"world_size"`
	Hosts      []string `parquet:"hosts,list"`
	JobID      *string  `parquet:"job_id"`
	SessionTag *string  `parquet:"session_tag"`
	First      int64    `parquet:"ts,timestamp(microsecond)"`
	Last       int64    `parquet:"ended,timestamp(microsecond)"`
	Events     int64    `parquet:"events"`
}
