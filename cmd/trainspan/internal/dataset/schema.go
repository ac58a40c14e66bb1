package dataset

// Version is that of the schema. It changes when a column changes its meaning or
// goes; new columns may come at any time. The files have it as the metadata
// trainspan.schema.
const Version = "1"

// event is one row of the table events. Zero and "" of optional fields are null.
type event struct {
	Rank      *int32 `parquet:"rank,dict"`
	Attempt   int32  `parquet:"attempt,optional,dict"`
	Host      string `parquet:"host,optional,dict"`
	PID       int64  `parquet:"pid,dict"`
	TID       int64  `parquet:"tid,dict"`
	Phase     string `parquet:"ph,dict"`
	Cat       string `parquet:"cat,dict"`
	Name      string `parquet:"name,dict"`
	TS        int64  `parquet:"ts_us,delta"`
	Dur       int64  `parquet:"dur_us"`
	Epoch     *int64 `parquet:"epoch,dict"`
	Step      *int64 `parquet:"step,dict"`
	ID        int64  `parquet:"id,optional,delta"`
	Parent    int64  `parquet:"parent,optional,delta"`
	OuterCat  string `parquet:"outer_cat,optional,dict"`
	OuterName string `parquet:"outer_name,optional,dict"`
	Group     string `parquet:"pg,optional,dict"`
	File      string `parquet:"file,optional,dict"`
	Args      string `parquet:"args,optional"`
}

// stretch is one row of the table ledger.
type stretch struct {
	Rank     int32  `parquet:"rank,dict"`
	Attempt  int32  `parquet:"attempt,dict"`
	Category string `parquet:"category,dict"`
	Step     *int64 `parquet:"step,dict"`
	Start    int64  `parquet:"start_ns,delta"`
	Dur      int64  `parquet:"dur_ns"`
}
