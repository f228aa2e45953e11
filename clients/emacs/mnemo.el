;;; mnemo.el --- Recall and remember with the mnemod daemon  -*- lexical-binding: t; -*-

;; Author: The authors of mnemod
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: convenience, tools
;; URL: https://pypi.org/project/mnemod/
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A client of mnemod, the memory daemon of this machine, on its Unix socket:
;;
;; - `mnemo-recall' finds memories and visits the chosen one: a note at its line; with a prefix argument it lists them
;;   in an xref buffer.  \\[xref-pop-marker-stack] leads back.
;; - `mnemo-remember-region' remembers the region, with its file and line as evidence; `mnemo-remember' a text.
;; - `mnemo-ask' answers a question from the memories, with its sources.
;; - `mnemo-context' inserts the block of memories for a prompt.
;; - `mnemo-show' shows one memory by its id.
;;
;; No request blocks Emacs: `mnemo-recall' waits for `mnemo-patience' seconds at most, and any key ends that wait.

;;; Code:

(require 'button)
(require 'cl-lib)
(require 'subr-x)
(require 'url-util)
(require 'xref)

(defgroup mnemo nil
  "Long-term memory of the mnemod daemon."
  :group 'tools
  :prefix "mnemo-")

(defcustom mnemo-command "mnemo"
  "The program that starts the daemon."
  :type 'string)

(defcustom mnemo-autostart t
  "Non-nil if a request may start the daemon."
  :type 'boolean)

(defcustom mnemo-socket nil
  "The socket of the daemon, or nil for the one on which it listens by default."
  :type '(choice (const :tag "By default" nil) file))

(defcustom mnemo-namespace nil
  "The namespace of every request, or nil for that of the buffer's folder.
The namespace of a folder is that of the command line: the one
named by the nearest .mnemo.toml, else the name of the git work
tree if `client.project_namespaces' is on, else \"default\"."
  :type '(choice (const :tag "Of the folder" nil) string))

(defcustom mnemo-top-k 10
  "The number of memories that a recall returns."
  :type 'natnum)

(defcustom mnemo-timeout 30
  "Seconds to wait for an answer."
  :type 'number)

(defcustom mnemo-ask-timeout 60
  "Seconds to wait for an answer that a language model may write."
  :type 'number)

(defcustom mnemo-patience 2
  "Seconds after which `mnemo-recall' goes on in the background."
  :type 'number)

(defvar mnemo--calls nil "Requests under way that a newer one replaces, by slot.")
(defvar mnemo--waiting nil "Functions that wait for the start of the daemon.")
(defvar mnemo--history nil "Queries and questions.")

(defun mnemo--message (format &rest arguments)
  "Show the message FORMAT with ARGUMENTS."
  (message "mnemo: %s" (apply #'format format arguments)))

;;;; The socket and the namespace

(defun mnemo--variable (name)
  "Return the environment variable NAME, nil if it is empty."
  (let ((value (getenv name)))
    (and value (not (string-empty-p value)) value)))

(defun mnemo--folder (xdg below-home)
  "Return the daemon's folder in that of the variable XDG, else in BELOW-HOME.
macOS has one for data and settings, which comes first if it is there."
  (let* ((folder (mnemo--variable xdg))
         (chosen (and folder (file-name-absolute-p folder)))
         (library (expand-file-name "~/Library/Application Support/mnemo")))
    (cond ((and (eq system-type 'darwin) (or (not chosen) (file-directory-p library))) library)
          (chosen (expand-file-name "mnemo" folder))
          (t (expand-file-name "mnemo" (expand-file-name below-home "~"))))))

(defun mnemo-socket-path ()
  "Return the socket of the daemon, by the rules of clients/docs/http.md."
  (let ((chosen (or mnemo-socket (mnemo--variable "MNEMO_SOCKET")))
        (data (mnemo--variable "MNEMO_DATA_DIR"))
        (runtime (mnemo--variable "XDG_RUNTIME_DIR")))
    (cond (chosen (expand-file-name chosen))
          (data (expand-file-name "run/mnemo.sock" data))
          ((and runtime (file-name-absolute-p runtime)) (expand-file-name "mnemo/mnemo.sock" runtime))
          (t (expand-file-name "run/mnemo.sock" (mnemo--folder "XDG_DATA_HOME" ".local/share"))))))

(defun mnemo--toml-value (file key)
  "Return the value of KEY, such as \"client.name\", as it is written in FILE.
Only a key and value on one line are read, with the section on a
line above them.  Return nil if there is none."
  (with-temp-buffer
    (insert-file-contents file)
    (let ((prefix "") value)
      (while (and (not value) (not (eobp)))
        (cond ((looking-at "[ \t]*\\[[ \t]*\\([[:alnum:]_.-]+\\)[ \t]*\\]")
               (setq prefix (concat (match-string 1) ".")))
              ((and (looking-at "[ \t]*\\([[:alnum:]_.-]+\\)[ \t]*=[ \t]*\\(.*?\\)[ \t\r]*$")
                    (equal (concat prefix (match-string 1)) key))
               (setq value (match-string 2))))
        (forward-line))
      value)))

(defun mnemo--valid-namespace (name origin)
  "Return NAME, trimmed, if it can be a namespace; ORIGIN is what names it."
  (let ((text (string-trim name)))
    (if (and (<= 1 (length text) 64) (not (string-match-p "[[:cntrl:]]" text)))
        text
      (user-error "%S (%s) cannot be a namespace: it has 1 to 64 printable characters on one line" name origin))))

(defun mnemo--project-namespaces-p ()
  "Return non-nil if each git work tree is a namespace of its own."
  (let* ((name "MNEMO_CLIENT_PROJECT_NAMESPACES")
         (value (getenv name))
         (config (or (mnemo--variable "MNEMO_CONFIG")
                     (expand-file-name "config.toml" (mnemo--folder "XDG_CONFIG_HOME" ".config")))))
    (cond ((not value)
           (and (file-readable-p config)
                (string-match-p "\\`true\\_>" (or (mnemo--toml-value config "client.project_namespaces") ""))))
          ((member (downcase value) '("1" "true" "yes" "on")) t)
          ((member (downcase value) '("0" "false" "no" "off" "")) nil)
          (t (user-error "%s is %S: set it to true or false" name value)))))

(defun mnemo-current-namespace ()
  "Return the namespace of the current buffer; see `mnemo-namespace'."
  (let* ((folder (expand-file-name (if (file-remote-p default-directory) "~/" default-directory)))
         (named (locate-dominating-file folder ".mnemo.toml"))
         (file (and named (expand-file-name ".mnemo.toml" named)))
         (written (and file (mnemo--toml-value file "namespace")))
         top)
    (cond (mnemo-namespace (mnemo--valid-namespace mnemo-namespace "mnemo-namespace"))
          ((and written
                (string-match "\\`\\(?:\"\\([^\"\\]*\\)\"\\|'\\([^']*\\)'\\)[ \t]*\\(?:#.*\\)?\\'" written))
           (mnemo--valid-namespace (or (match-string 1 written) (match-string 2 written)) file))
          (file (user-error "%s names no namespace; write this line in it: namespace = \"NAME\"" file))
          ((and (mnemo--project-namespaces-p) (setq top (locate-dominating-file folder ".git")))
           (let ((name (file-name-nondirectory (directory-file-name (expand-file-name top)))))
             (mnemo--valid-namespace (substring name 0 (min 64 (length name))) top)))
          (t "default"))))

;;;; HTTP/1.1 on the socket: one request on each connection

(defun mnemo--failure (code format &rest arguments)
  "Return an error with a CODE and the message FORMAT with ARGUMENTS."
  `((code . ,code) (message . ,(apply #'format format arguments))))

(defun mnemo--chunks (start)
  "Return the body in chunks from START of the current buffer.
Return nil while it is not complete, and `malformed' if it never can be."
  (goto-char start)
  (let (parts size)
    (catch 'body
      (while t
        (unless (looking-at "\\([[:xdigit:]]+\\)[^\r\n]*\r\n")
          (throw 'body (and (search-forward "\r\n" nil t) 'malformed)))
        (setq size (string-to-number (match-string 1) 16))
        (goto-char (match-end 0))
        (cond ((zerop size)
               (throw 'body (and (re-search-forward "\\(?:\\=\\|\r\n\\)\r\n" nil t) (apply #'concat (nreverse parts)))))
              ((> (+ (point) size 2) (point-max)) (throw 'body nil)))
        (push (buffer-substring (point) (+ (point) size)) parts)
        (goto-char (+ (point) size))
        (unless (looking-at "\r\n") (throw 'body 'malformed))
        (goto-char (match-end 0))))))

(defun mnemo--parse (ended)
  "Return the answer in the current buffer as (STATUS HEADERS BODY).
Return nil while it is not complete, and `malformed' if it is not HTTP.
ENDED is non-nil when the connection was closed."
  (goto-char (point-min))
  (when (search-forward "\r\n\r\n" nil t)
    (let* ((start (point)) (head (buffer-substring (point-min) (- start 2))) (case-fold-search t)
           (status (and (string-match "\\`HTTP/1\\.[01] \\([0-9]\\{3\\}\\)[ \r]" head) (match-string 1 head)))
           (headers (mapcar (lambda (line)
                              (let ((colon (or (string-match-p ":" line) (length line))))
                                (cons (downcase (substring line 0 colon))
                                      (string-trim (substring line (min (1+ colon) (length line)))))))
                            (cdr (split-string head "\r\n" t))))
           (length (cdr (assoc "content-length" headers)))
           (body (cond ((equal (downcase (or (cdr (assoc "transfer-encoding" headers)) "")) "chunked")
                        (and ended (mnemo--chunks start)))
                       ((not length) (and ended (buffer-substring start (point-max))))
                       ((not (string-match-p "\\`[0-9]+\\'" length)) 'malformed)
                       ((<= (+ start (string-to-number length)) (point-max))
                        (buffer-substring start (+ start (string-to-number length)))))))
      (cond ((or (not status) (eq body 'malformed)) 'malformed)
            ((eq (aref status 0) ?1)    ; 100 Continue and the like come before the answer
             (delete-region (point-min) start)
             (mnemo--parse ended))
            (body (list (string-to-number status) headers body))))))

(defun mnemo--exchange (bytes timeout done)
  "Send BYTES and call DONE once, with an error or nil and the parsed answer.
After TIMEOUT seconds that is an error.  Return a function that
drops the exchange: then DONE is not called."
  (let* ((path (mnemo-socket-path))
         (buffer (generate-new-buffer " *mnemo answer*" t))
         process timer over)
    (cl-labels
        ((close () (setq over t)
           (when timer (cancel-timer timer))
           (when process (delete-process process))
           (kill-buffer buffer))
         (finish (err answer) (unless over (close) (funcall done err answer)))
         (check (ended)
           (unless over
             (let ((answer (with-current-buffer buffer (mnemo--parse ended))))
               (cond ((eq answer 'malformed)
                      (finish (mnemo--failure "malformed" "the process that listens on %s is not a mnemo daemon" path) nil))
                     (answer (finish nil answer))
                     (ended
                      (finish (mnemo--failure "interrupted" "the connection ended before the daemon answered; \
the request may or may not have been carried out")
                              nil)))))))
      (with-current-buffer buffer (set-buffer-multibyte nil))
      (condition-case failed
          (progn
            (setq process
                  (make-network-process
                   :name "mnemo" :family 'local :service path :coding 'binary :noquery t
                   :filter (lambda (_ piece)
                             (unless over
                               (with-current-buffer buffer (goto-char (point-max)) (insert piece))
                               (check nil)))
                   :sentinel (lambda (_ _event) (check t))))
            (setq timer (run-at-time timeout nil #'finish
                                     (mnemo--failure "timeout" "the daemon did not answer within %s s; \
see what it does: mnemo status" timeout)
                                     nil))
            ;; A daemon that refuses a body answers before it has read all of it: that answer counts.
            (condition-case nil (process-send-string process bytes) (error (check t))))
        (error (finish (mnemo--failure "unreachable" "no daemon listens on %s (%s)" path (error-message-string failed))
                       nil)))
      (lambda () (unless over (close))))))

;;;; Requests

(defun mnemo--start (unreachable done)
  "Run \"mnemo up\", and call DONE with nil when the daemon answers.
DONE gets the error if it could not be started, or UNREACHABLE if
that is not allowed.  Requests that find no daemon at the same
time share one start."
  (let ((why (alist-get 'message unreachable))
        (switch (downcase (or (getenv "MNEMO_AUTOSTART") ""))))
    (cond ((or (not mnemo-autostart) (member switch '("0" "false" "no" "off")))
           (funcall done (mnemo--failure "unreachable" "%s; start it with: mnemo up" why)))
          ((not (executable-find mnemo-command))
           (funcall done (mnemo--failure "unreachable" "%s; it cannot be started, since there is no program %s: \
install mnemod, or set `mnemo-command'" why mnemo-command)))
          (mnemo--waiting (push done mnemo--waiting))
          (t
           (setq mnemo--waiting (list done))
           (mnemo--message "the daemon does not run; starting it …")
           (let ((process-environment
                  (if mnemo-socket (cons (concat "MNEMO_SOCKET=" (mnemo-socket-path)) process-environment)
                    process-environment))
                 (default-directory (expand-file-name "~/")))
             (make-process
              :name "mnemo up" :command (list mnemo-command "up") :noquery t :connection-type 'pipe
              :buffer (generate-new-buffer " *mnemo up*")
              :sentinel #'mnemo--started))))))

(defun mnemo--started (process _event)
  "Call the functions that wait for PROCESS when it has ended."
  (unless (process-live-p process)
    (let* ((output (with-current-buffer (process-buffer process) (string-trim (buffer-string))))
           (err (unless (zerop (process-exit-status process))
                  (mnemo--failure "unreachable" "`%s up' failed:\n%s" mnemo-command output)))
           (waiting (reverse mnemo--waiting)))
      (setq mnemo--waiting nil)
      (kill-buffer (process-buffer process))
      (dolist (each waiting) (funcall each err)))))

(defun mnemo--encode (method path body headers)
  "Return the bytes of a request with METHOD, PATH, BODY and HEADERS."
  (let ((data (and body (condition-case nil (json-serialize body)
                          (error (user-error "The text has bytes that are not characters"))))))
    (unless (assoc "X-Mnemo-Door" headers) (push '("X-Mnemo-Door" . "cli") headers))
    (concat (encode-coding-string
             (concat (format "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" method path)
                     (mapconcat (lambda (each) (format "%s: %s\r\n" (car each) (cdr each))) headers ""))
             'utf-8)
            (and data (format "Content-Type: application/json\r\nContent-Length: %d\r\n" (string-bytes data)))
            "\r\n" data)))

(defun mnemo--decode (answer done)
  "Call DONE with the error of ANSWER, or with nil and its value.
That is text if the answer is not one of JSON."
  (let* ((status (car answer))
         (fault (cdr (assoc "x-mnemo-degraded" (cadr answer))))
         (text (decode-coding-string (nth 2 answer) 'utf-8))
         (value (if (string-prefix-p "application/json" (or (cdr (assoc "content-type" (cadr answer))) ""))
                    (condition-case nil
                        (json-parse-string text :object-type 'alist :array-type 'list :null-object nil :false-object nil)
                      (error 'malformed))
                  text))
         (err (and (consp value) (alist-get 'error value))))
    (when fault (mnemo--message "the store has a fault: %s" fault))
    (cond ((>= status 400)
           (funcall done (if (consp err) `((status . ,status) ,@err)
                           (mnemo--failure "status" "the daemon answered with status %d" status))
                    nil))
          ((eq value 'malformed) (funcall done (mnemo--failure "malformed" "the daemon's answer is not JSON") nil))
          (t (funcall done nil value)))))

(cl-defun mnemo-request (method path body done &key headers slot repeatable timeout)
  "Send a request and call DONE once, with an error or nil and the answer.
METHOD is an HTTP method, BODY an alist or nil, HEADERS an alist.
The error is an alist with `code', `message' and, if the daemon
answered, `status'; the answer is an alist.  PATH is the target.

A new request with the SLOT of one under way drops that one: its
DONE is never called.  One that is REPEATABLE is sent again if
the connection ends before the answer, which is awaited for
TIMEOUT seconds.  Return a function that drops the request."
  (let ((bytes (mnemo--encode method path body headers))
        (starts 0) (repeats 0) over drop-exchange slow)
    (cl-labels
        ((end () (setq over t) (when slow (cancel-timer slow)))
         (drop () (end) (when drop-exchange (funcall drop-exchange)))
         (fail (err) (end) (funcall done err nil))
         (attempt () (setq drop-exchange (mnemo--exchange bytes (or timeout mnemo-timeout) #'handle)))
         (handle (err answer)
           (let ((code (alist-get 'code err)))
             (cond (over nil)
                   ((and (equal code "unreachable") (zerop starts))
                    (setq starts 1)
                    (mnemo--start err (lambda (failed)
                                        (cond (over nil) (failed (fail failed)) (t (attempt))))))
                   ((and (equal code "interrupted") repeatable (zerop repeats))
                    (setq repeats 1)
                    (attempt))
                   (err (fail err))
                   (t (end) (mnemo--decode answer done))))))
      (when slot
        (when-let ((former (alist-get slot mnemo--calls))) (funcall former))
        (setf (alist-get slot mnemo--calls) #'drop))
      (setq slow (run-at-time mnemo-patience nil #'mnemo--message "still waiting for the daemon's answer …"))
      (attempt)
      #'drop)))

(defun mnemo--ask-daemon (path body show &rest options)
  "Send BODY to PATH with OPTIONS, and call SHOW with the answer.
An error is shown as a message."
  (apply #'mnemo-request "POST" path body
         (lambda (err answer)
           (if err (mnemo--message "%s" (alist-get 'message err)) (funcall show answer)))
         options))

;;;; Memories on the screen

(defun mnemo--one-line (text)
  "Return TEXT on one line, without control characters."
  (string-trim (replace-regexp-in-string "[[:space:][:cntrl:]]+" " " text)))

(defun mnemo--line (memory)
  "Return the line of MEMORY in its note."
  (or (alist-get 'line (alist-get 'best memory)) (car (alist-get 'lines (alist-get 'note memory)))))

(defun mnemo--place (memory)
  "Return the path and line of MEMORY in its note, or the end of its id."
  (if-let ((note (alist-get 'note memory)))
      (format "%s:%s" (abbreviate-file-name (alist-get 'path note)) (mnemo--line memory))
    (substring (string-replace "-" "" (alist-get 'id memory)) -8)))

(defun mnemo--date (memory &optional format)
  "Return the day of MEMORY, or its time in FORMAT; nil for a note without a date."
  (let ((note (alist-get 'note memory)))
    (when (or (not note) (alist-get 'dated note))
      (format-time-string (or format "%F") (/ (alist-get 'event_at memory) 1000)))))

(defun mnemo--excerpt (memory)
  "Return the sentences of MEMORY that answer best, on one line."
  (mnemo--one-line (or (alist-get 'text (alist-get 'best memory)) (alist-get 'content memory))))

(defun mnemo--heading (memory)
  "Return where MEMORY is, the titles above it and its day."
  (let* ((note (alist-get 'note memory))
         (titles (alist-get 'headings note))
         (title (alist-get 'title note)))
    (unless (or (not title) (equal (car titles) title)) (push title titles))
    (string-join (delq nil (list (mnemo--place memory)
                                 (and titles (mnemo--one-line (string-join titles " › ")))
                                 (mnemo--date memory)))
                 " · ")))

(defun mnemo--missing (answer)
  "Return what was missing when ANSWER was made, in words; \"\" if nothing was."
  (let ((parts (mapcar (lambda (name)
                         (or (cdr (assoc name '(("vectors" . "by words only") ("llm" . "without the language model")
                                                ("notes" . "notes are still being read"))))
                             (concat "without " name)))
                       (alist-get 'degraded answer))))
    (if parts (format " (%s)" (string-join parts ", ")) "")))

(defun mnemo--named-time (answer)
  "Return the time that the question of ANSWER names; \"\" if it names none."
  (let ((text (alist-get 'text (alist-get 'time answer))))
    (if (member text '(nil "")) "" (format " · %s" (mnemo--one-line text)))))

(define-derived-mode mnemo-memory-mode special-mode "Memory"
  "Major mode for one memory, or an answer with its sources.")

(defun mnemo--fill (name insert)
  "Return the buffer NAME, filled by the function INSERT."
  (with-current-buffer (get-buffer-create name)
    (mnemo-memory-mode)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (funcall insert)
      (goto-char (point-min)))
    (current-buffer)))

(defun mnemo--memory-buffer (memory)
  "Return a buffer with the whole of MEMORY."
  (mnemo--fill
   (format "*mnemo %s*" (substring (alist-get 'id memory) -8))
   (lambda ()
     (let-alist memory
       (cl-loop for (name . value) in `(("kind" . ,(format "%s, %s, %s" .kind .category .layer))
                                        ("state" . ,(and (not (equal .state "active")) .state))
                                        ("date" . ,(mnemo--date memory "%F %R"))
                                        ("from" . ,(format "%s, trust %s, namespace %s" .source .trust .namespace))
                                        ("tags" . ,(and .tags (string-join .tags ", ")))
                                        ("speaker" . ,.speaker)
                                        ("note" . ,(and .note (mnemo--place memory)))
                                        ("evidence" . ,(and .evidence (string-join .evidence ", ")))
                                        ("id" . ,.id))
                when value do (insert (format "%-9s %s\n" (concat name ":") (mnemo--one-line value))))
       (insert "\n" .content "\n")))))

;;;###autoload
(defun mnemo-show (id)
  "Show the memory with ID: the whole id, or 8 or more digits of its start or end."
  (interactive "sMemory: ")
  (mnemo-request "GET" (concat "/v1/memories/" (url-hexify-string id)) nil
                 (lambda (err memory)
                   (if err (mnemo--message "%s" (alist-get 'message err))
                     (display-buffer (mnemo--memory-buffer memory))))
                 :repeatable t))

(defun mnemo--marker (memory)
  "Return a marker at MEMORY: in its note, else in a buffer for it."
  (let ((path (alist-get 'path (alist-get 'note memory))))
    (with-current-buffer (if (and path (file-readable-p path)) (find-file-noselect path) (mnemo--memory-buffer memory))
      (when (alist-get 'content_cut memory) (mnemo-show (alist-get 'id memory)))
      (save-restriction
        (widen)
        (goto-char (point-min))
        (when buffer-file-name (forward-line (1- (mnemo--line memory))))
        (point-marker)))))

(defun mnemo--visit (memory)
  "Visit MEMORY: its note at the line, else a buffer for it."
  (xref-push-marker-stack)
  (let ((marker (mnemo--marker memory)))
    (pop-to-buffer-same-window (marker-buffer marker))
    (unless (<= (point-min) marker (point-max)) (widen))
    (goto-char marker)))

(cl-defstruct (mnemo--location (:constructor mnemo--location (memory))) "A place in an xref buffer." memory)

(cl-defmethod xref-location-marker ((location mnemo--location))
  "Return the marker of LOCATION."
  (mnemo--marker (mnemo--location-memory location)))

(cl-defmethod xref-location-group ((location mnemo--location))
  "Return the file of LOCATION, or a heading for all memories without one."
  (or (alist-get 'path (alist-get 'note (mnemo--location-memory location))) "memories"))

(cl-defmethod xref-location-line ((location mnemo--location))
  "Return the line of LOCATION in its file."
  (mnemo--line (mnemo--location-memory location)))

(defun mnemo--list (memories)
  "List MEMORIES in an xref buffer."
  (let ((items (mapcar (lambda (memory) (xref-make (mnemo--excerpt memory) (mnemo--location memory))) memories)))
    (funcall xref-show-xrefs-function (lambda () items) `((window . ,(selected-window)) (display-action . nil)))))

(defun mnemo--choose (memories prompt)
  "Return the one of MEMORIES that the user chooses after PROMPT, best first."
  (let* ((candidates (mapcar (lambda (memory)
                               (cons (truncate-string-to-width (mnemo--excerpt memory) 100 nil nil "…") memory))
                             memories))
         (table (progn
                  (dolist (each candidates) ; equal excerpts get their ids
                    (when (cl-find-if (lambda (other) (and (not (eq each other)) (equal (car each) (car other))))
                                      candidates)
                      (setcar each (format "%s %s" (car each) (substring (alist-get 'id (cdr each)) -8)))))
                  (lambda (string predicate action)
                    (if (eq action 'metadata)
                        `(metadata (category . mnemo-memory) (display-sort-function . identity)
                                   (cycle-sort-function . identity)
                                   (annotation-function
                                    . ,(lambda (candidate)
                                         (when-let ((memory (cdr (assoc candidate candidates))))
                                           (format "  %.2f %s" (alist-get 'score memory) (mnemo--heading memory))))))
                      (complete-with-action action candidates string predicate))))))
    (setq prompt (format-prompt prompt (truncate-string-to-width (caar candidates) 50 nil nil "…")))
    (cdr (assoc (completing-read prompt table nil t nil nil (caar candidates)) candidates))))

;;;; Commands

(defun mnemo--read (prompt)
  "Return the region on one line, or a text that the user is asked for with PROMPT."
  (let ((text (if (use-region-p) (buffer-substring-no-properties (region-beginning) (region-end))
                (read-string prompt nil 'mnemo--history))))
    (mnemo--one-line text)))

;;;###autoload
(defun mnemo-recall (query &optional list)
  "Find memories for QUERY, and visit the one that the user chooses.
With LIST, interactively with a prefix argument, list them in an
xref buffer.  So does a recall that takes longer than
`mnemo-patience' seconds, or that the user does not wait for."
  (interactive (list (mnemo--read "Recall: ") current-prefix-arg))
  (let* ((waits (not list)) found
         (deadline (+ (float-time) mnemo-patience))
         (drop (mnemo--ask-daemon
                "/v1/recall" `((query . ,query) (namespace . ,(mnemo-current-namespace)) (top_k . ,mnemo-top-k)
                            (cut . "gap") (highlight . t))
                (lambda (answer)
                  (let ((memories (alist-get 'memories answer)))
                    (cond ((not memories)
                           (setq waits nil)
                           (mnemo--message (if (alist-get 'abstained answer)
                                               "nothing in namespace %s is close enough to be an answer%s"
                                             "nothing found in namespace %s%s")
                                           (alist-get 'namespace answer) (mnemo--missing answer)))
                          (waits (setq found answer))
                          (list (mnemo--list memories))
                          (t (save-selected-window (mnemo--list memories))))))
                :slot 'recall :repeatable t)))
    (condition-case nil
        (while (and waits (not found) (< (float-time) deadline) (not (input-pending-p)))
          (accept-process-output nil 0.05))
      (quit (funcall drop) (signal 'quit nil)))
    (setq waits nil)
    (when found
      (mnemo--visit (mnemo--choose (alist-get 'memories found)
                                   (concat "Memories" (mnemo--named-time found) (mnemo--missing found)))))))

;;;###autoload
(defun mnemo-remember (text &optional evidence)
  "Remember TEXT, with EVIDENCE such as a file and line."
  (interactive "sRemember: ")
  (mnemo--ask-daemon
   "/v1/memories" `((content . ,text) (namespace . ,(mnemo-current-namespace))
                 ,@(and evidence `((evidence . [,evidence]))))
   (lambda (answer)
     (let-alist answer
       (mnemo--message "%s · %s · namespace %s%s"
                       (or (cdr (assoc .outcome '(("stored" . "remembered") ("duplicate" . "already known")
                                                  ("repeats" . "remembered, although already known in other words")
                                                  ("merged" . "merged into a known memory"))))
                           .outcome)
                       (mnemo--place .memory) .memory.namespace
                       (if (member "sensitive" .memory.tags) " · looks like a secret: tagged sensitive" ""))))))

;;;###autoload
(defun mnemo-remember-region (start end)
  "Remember the text from START to END, with its file and line as evidence."
  (interactive "r")
  (mnemo-remember (buffer-substring-no-properties start end)
                  (and buffer-file-name (format "%s:%d" buffer-file-name (line-number-at-pos start t)))))

(defun mnemo--insert-answer (question answer)
  "Insert QUESTION and ANSWER with its sources, each a button that visits it."
  (let-alist answer
    (let ((ids (delete-dups (apply #'append (mapcar (lambda (each) (copy-sequence (alist-get 'ids each))) .sentences)))))
      (insert "? " question (mnemo--missing answer) "\n\n")
      (dolist (sentence .sentences)
        (insert (alist-get 'text sentence))
        (dolist (id (alist-get 'ids sentence)) (insert (format " [%d]" (1+ (cl-position id ids :test #'equal)))))
        (insert "\n"))
      (unless .sentences (insert .answer "\n"))
      (cl-loop for id in ids for number from 1
               for memory = (cl-find id .memories :key (lambda (each) (alist-get 'id each)) :test #'equal)
               when memory do
               (insert "\n" (format "[%d] " number))
               (insert-text-button (mnemo--heading memory)
                                   'action (lambda (button) (mnemo--visit (button-get button 'mnemo-memory)))
                                   'mnemo-memory memory)
               (insert "\n    " (mnemo--excerpt memory) "\n")))))

;;;###autoload
(defun mnemo-ask (question)
  "Answer QUESTION from the memories, in a buffer with the sources."
  (interactive (list (mnemo--read "Ask: ")))
  (mnemo--ask-daemon
   "/v1/ask" `((question . ,question) (namespace . ,(mnemo-current-namespace)))
   (lambda (answer)
     (if (alist-get 'abstained answer)
         (mnemo--message "the memories of namespace %s do not hold the answer%s"
                         (alist-get 'namespace answer) (mnemo--missing answer))
       (display-buffer (mnemo--fill "*mnemo answer*" (lambda () (mnemo--insert-answer question answer))))))
   :slot 'ask :repeatable t :timeout mnemo-ask-timeout))

;;;###autoload
(defun mnemo-context (query &optional kill)
  "Insert the block of memories for QUERY at point.
With KILL, interactively with a prefix argument, put it into the kill ring."
  (interactive (list (mnemo--read "Context for: ") current-prefix-arg))
  (let ((marker (point-marker)))
    (mnemo--ask-daemon
     "/v1/context" `((query . ,query) (namespace . ,(mnemo-current-namespace)))
     (lambda (answer)
       (let ((block (alist-get 'block answer)) (buffer (marker-buffer marker)))
         (cond ((string-empty-p block)
                (mnemo--message "nothing found in namespace %s%s" (alist-get 'namespace answer) (mnemo--missing answer)))
               ((or kill (not buffer) (buffer-local-value 'buffer-read-only buffer))
                (kill-new block)
                (mnemo--message "the block is in the kill ring%s" (mnemo--missing answer)))
               (t (with-current-buffer buffer
                    (save-excursion (goto-char marker) (insert block "\n")))
                  (mnemo--message "inserted%s" (mnemo--missing answer))))
         (set-marker marker nil)))
     :slot 'context :repeatable t)))

(provide 'mnemo)

;;; mnemo.el ends here
