/* device_rows.h - copies of the rows of an index on devices. Stays in this room.
 *
 * A lane is what one device searches: a share of the rows, in one piece that stays on the device
 * or, where its memory is too small, in pieces that pass through it. Rows go there as bytes, in
 * tiles whose rows share a scale (device_api.h), and as given, if there is room for that as
 * well. */
#ifndef KF_DEVICE_ROWS_H
#define KF_DEVICE_ROWS_H

#include "device/device.h"
#include "search/copies.h"

/* Tiles on the host, for pieces that pass through a device. */
typedef struct kf_tiles {
  int8_t *bytes;     /* [n * tile_rows][padded] */
  uint32_t *numbers; /* [n * tile_rows] */
  kf_dev_tile *tile; /* [n] */
  uint64_t n;
} kf_tiles;

typedef struct kf_piece {
  kf_dev_piece is;
  uint64_t different; /* rows, without copies of others: those in its tiles */
  kf_dev_rows *rows;  /* NULL: not on the device */
  kf_tiles kept;      /* of a piece that passes through */
} kf_piece;

/* Room for queries on a device (device_search.c). */
typedef struct kf_room {
  kf_dev_queries *queries;
  uint64_t asked;      /* queries that room was asked for */
  uint32_t most, best; /* queries; rows in the list of each */
  uint64_t hits;
  kf_dev_scored *answers; /* [most][best] */
  float *given; /* [most][dim] queries, of the first lane for all; NULL: they stay where they are */
  void *locked[2]; /* what of these is page-locked */
  kf_arena lists;  /* for answers that are not */
} kf_room;

typedef struct kf_lane {
  kf_device *device;
  kf_dev_space space;
  uint64_t first, n;  /* rows of the index */
  uint64_t different; /* of these, without copies of others (copies.h) */
  bool scores;        /* the device has the rows as given, and scores them */
  bool stays;         /* the only piece is on the device */
  uint32_t n_pieces;
  kf_piece *pieces;
  kf_arena arena;
  kf_room room;   /* the one at hand */
  kf_room longer; /* with longer lists, for few queries */
} kf_lane;

typedef struct kf_device_rows {
  uint32_t n; /* lanes */
  kf_lane lanes[KF_MOST_DEVICES];
} kf_device_rows;

/* What an index knows of devices. It changes while the index is searched. */
struct kf_index_devices {
  pthread_mutex_t lock;
  kf_device_rows *rows; /* NULL: they are not on a device */
  uint64_t asked;       /* queries so far that a device could have taken, and */
  double products;      /* rows x queries x columns */
  bool refused;         /* they do not fit: not tried again, unless devices are named */
  bool looked;          /* for copies: */
  kf_copies copies;
  kf_slots_owner map; /* what brings queries to the space of the rows */
  uint64_t left_over; /* queries that devices have left to the CPU, for tests */
  uint64_t window;    /* rows in place that are sorted together, for tests; 0: chosen */
};
struct kf_index_devices *kf_index_devices_new(void); /* NULL: out of memory */
void kf_index_devices_free(struct kf_index_devices *devices);

/* A fault of a device, rather than of rows or the host: the CPU can take over. */
typedef struct kf_device_fault {
  bool happened;
} kf_device_fault;
/* Turns what a device says into an error. */
kf_status kf_lane_check(const kf_lane *lane, kf_dev_status status, const char *what,
                        kf_device_fault *fault, kf_err *err);
#define KF_TRY_LANE(lane, call, fault, err)                                                        \
  KF_TRY(kf_lane_check((lane), (call), "search", (fault), (err)))

/* Copies the rows of an index to the devices of a context. If fault->happened is set, only the
 * device failed. */
kf_status kf_device_rows_new(kf_ctx *ctx, const kf_index *index, const kf_devices *devices,
                             kf_device_fault *fault, kf_device_rows **out);
void kf_device_rows_free(kf_device_rows *rows); /* NULL: nothing */
/* Whether they are on these devices. */
bool kf_device_rows_on(const kf_device_rows *rows, const kf_devices *devices);

/* Makes room for n queries, or for as many as fit, with lists of `best` rows. given: also in
 * page-locked memory of the host, if there is any. */
kf_status kf_lane_room(kf_lane *lane, uint64_t n, uint32_t best, bool given, kf_device_fault *fault,
                       kf_err *err);

/* Swaps the two rooms for queries. */
void kf_lane_swap_rooms(kf_lane *lane);

/* Brings a piece that passes through to the device, and drops it. */
kf_dev_status kf_piece_bring(const kf_lane *lane, kf_piece *piece);
void kf_piece_drop(const kf_lane *lane, kf_piece *piece);

#endif
