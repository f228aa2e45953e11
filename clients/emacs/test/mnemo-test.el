;;; mnemo-test.el --- The cases of the client  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Run by tests/integration/test_emacs_client.py: one process of Emacs for all cases of a kind, which is a tag.

;;; Code:

(require 'ert)
(let ((load-prefer-newer t))
  (load (expand-file-name "../mnemo.el" (file-name-directory (or load-file-name buffer-file-name))) nil t))

(defconst mnemo-test-given (json-parse-string (getenv "MNEMO_TEST") :object-type 'alist :null-object nil)
  "The places that the test provides.")
(defconst mnemo-test-seconds 60 "The longest wait for what takes a moment.")
(defvar mnemo-test-messages nil "The messages of the client, the last one first.")

(defun mnemo-test-place (name)
  "Return the place NAME."
  (alist-get name mnemo-test-given))

(defmacro mnemo-test-wait (&rest condition)
  "Wait until CONDITION holds, and return its value."
  `(let ((deadline (+ (float-time) mnemo-test-seconds)) value)
     (while (not (setq value (progn ,@condition)))
       (when (> (float-time) deadline) (error "Waited in vain for %S; messages: %S" ',condition mnemo-test-messages))
       (accept-process-output nil 0.005))
     value))

(defmacro mnemo-test-case (name kind doc &rest body)
  "Define the case NAME of a KIND, described by DOC, with BODY; the messages of the client are collected."
  (declare (indent 2) (doc-string 3))
  `(ert-deftest ,name ()
     ,doc
     :tags '(,kind)
     (let ((mnemo-test-messages nil)
           (mnemo-patience mnemo-test-seconds)) ; on a busy machine no answer is late
       (cl-letf (((symbol-function 'mnemo--message)
                  (lambda (&rest arguments) (push (apply #'format arguments) mnemo-test-messages))))
         ,@body))))

(defun mnemo-test-message (part)
  "Wait for a message that contains PART, and return it."
  (mnemo-test-wait (cl-find-if (lambda (each) (string-search part each)) mnemo-test-messages)))

(defun mnemo-test-request (method path &optional body headers)
  "Return the error and the answer of the request METHOD PATH with BODY and HEADERS."
  (let (result)
    (mnemo-request method path body (lambda (&rest given) (setq result given)) :headers headers)
    (mnemo-test-wait result)))

(defun mnemo-test-failure (path)
  "Return the code and message of the error that GET PATH leads to."
  (let ((err (car (mnemo-test-request "GET" path))))
    (cons (alist-get 'code err) (alist-get 'message err))))

(defmacro mnemo-test-choosing (&rest body)
  "Return what the completion of BODY offered: the prompt, the first candidate and its annotation; choose that."
  `(let* (offered
          (completing-read-function
           (lambda (prompt table &rest arguments)
             (let ((metadata (cdr (funcall table "" nil 'metadata))) (candidate (car (all-completions "" table))))
               (should (equal candidate (nth 4 arguments)))
               (setq offered (list prompt candidate (funcall (alist-get 'annotation-function metadata) candidate)))
               candidate))))
     ,@body
     offered))

(defmacro mnemo-test-in-project (&rest body)
  "Do BODY in the buffer of the project's file."
  `(with-current-buffer (find-file-noselect (mnemo-test-place 'project)) ,@body))

;;;; A real daemon

(mnemo-test-case mnemo-test-live-a-remember live
  "The region is remembered with file, line and namespace; a text without evidence, and known the second time."
  (mnemo-test-in-project
   (goto-char (point-min))
   (forward-line 2)
   (mnemo-remember-region (point) (line-end-position 2))
   (should (string-search "namespace boat" (mnemo-test-message "remembered")))
   (mnemo-remember "The engine was serviced at 520 hours.")
   (mnemo-test-wait (cdr mnemo-test-messages))
   (mnemo-remember "the engine  was serviced at 520 hours.")
   (mnemo-test-message "already known")))

(mnemo-test-case mnemo-test-live-b-recall live
  "Recall jumps to the line of a note, and the marker stack leads back."
  (mnemo-test-in-project
   (switch-to-buffer (current-buffer))
   (let ((from (current-buffer)) offered)
     (mnemo-test-wait                   ; the note is read in the background
      (setq offered (mnemo-test-choosing (mnemo-recall "when to prune the apple trees")))
      buffer-file-name
      (equal (mnemo-test-place 'garden) (buffer-file-name (window-buffer))))
     (should (equal "The ladder is in the shed. Prune the apple trees in late February." (nth 1 offered)))
     (should (string-search "apple trees.md:8 · Garden › Trees" (nth 2 offered)))
     (with-current-buffer (window-buffer)
       (should (looking-at "Prune the apple trees"))
       (xref-pop-marker-stack))
     (should (eq from (window-buffer))))))

(mnemo-test-case mnemo-test-live-c-memory live
  "Recall shows a memory that is no note in a buffer of its own, and `mnemo-show' any by its id."
  (mnemo-test-in-project
   (mnemo-test-choosing (mnemo-recall "jib spinnaker"))
   (with-current-buffer (window-buffer)
     (should (string-search "The jib is größer \\ \"than\" 日本語 🚀\nthe spinnaker." (buffer-string)))
     (should (string-search (concat "evidence: " (mnemo-test-place 'project) ":3\n") (buffer-string)))
     (should buffer-read-only)
     (let ((id (and (string-match "^id: +.*-\\([0-9a-f]+\\)$" (buffer-string)) (match-string 1 (buffer-string)))))
       (kill-buffer)
       (mnemo-show id)
       (mnemo-test-wait (get-buffer (format "*mnemo %s*" (substring id -8))))))))

(mnemo-test-case mnemo-test-live-d-list live
  "With a prefix argument the memories are listed in an xref buffer, which leads to them."
  (mnemo-test-in-project
   (mnemo-recall "prune the apple trees" t)
   (with-current-buffer (mnemo-test-wait (get-buffer "*xref*"))
     (should (string-match-p "apple trees\\.md\n *8: The ladder is in the shed. Prune the apple trees" (buffer-string)))
     (goto-char (point-min))
     (search-forward "8: ")
     (xref-goto-xref))
   (with-current-buffer (window-buffer)
     (should (equal (mnemo-test-place 'garden) buffer-file-name))
     (should (= 8 (line-number-at-pos))))))

(mnemo-test-case mnemo-test-live-e-ask live
  "An answer names its sources, and a button opens one."
  (mnemo-test-in-project
   (mnemo-ask "When should I prune the apple trees?")
   (with-current-buffer (mnemo-test-wait (get-buffer "*mnemo answer*"))
     (should (string-search "Prune the apple trees in late February. [1]" (buffer-string)))
     (goto-char (point-min))
     (forward-button 1)
     (push-button))
   (with-current-buffer (window-buffer)
     (should (equal (mnemo-test-place 'garden) buffer-file-name))
     (should (looking-at "Prune")))))

(mnemo-test-case mnemo-test-live-f-context live
  "The block of memories is inserted where the command was given, or put into the kill ring."
  (with-temp-buffer
    (insert "Question:\n" "The end.\n")
    (forward-line -1)
    (mnemo-context "prune the apple trees")
    (goto-char (point-min))
    (insert "A new first line\n")
    (mnemo-test-message "inserted")
    (should (string-prefix-p "A new first line\nQuestion:\n<memory>\n[" (buffer-string)))
    (mnemo-context "prune the apple trees" t)
    (mnemo-test-message "kill ring")
    (should (string-suffix-p "late February.\n</memory>" (current-kill 0)))))

(mnemo-test-case mnemo-test-live-g-nothing live
  "Nothing found is said."
  (mnemo-recall "zyzzyva quokka")
  (should (string-search "nothing" (mnemo-test-message "in namespace default"))))

(mnemo-test-case mnemo-test-live-h-namespace live
  "The namespace of a folder is that of the command line."
  (cl-loop for (folder . wanted) in (mnemo-test-place 'namespaces)
           for default-directory = (file-name-as-directory (symbol-name folder)) do
           (if wanted (should (equal wanted (mnemo-current-namespace)))
             (let ((err (should-error (mnemo-current-namespace) :type 'user-error)))
               (should (string-search (directory-file-name (file-name-directory (symbol-name folder))) (cadr err))))))
  (let ((mnemo-namespace "fixed"))
    (should (equal "fixed" (mnemo-current-namespace)))))

(mnemo-test-case mnemo-test-restart restart
  "A daemon that does not run is started, and one that was restarted between two requests answers the second."
  (call-process "mnemo" nil nil nil "down")
  (should-not (car (mnemo-test-request "GET" "/v1/search?q=engine&namespace=boat")))
  (mnemo-test-message "starting it")
  (let ((pid (alist-get 'pid (cadr (mnemo-test-request "GET" "/v1/status")))))
    (setq mnemo-test-messages nil)
    (call-process "mnemo" nil nil nil "down")
    (call-process "mnemo" nil nil nil "up")
    (should (= 1 (alist-get 'total (cadr (mnemo-test-request "GET" "/v1/search?q=engine&namespace=boat")))))
    (should-not (equal pid (alist-get 'pid (cadr (mnemo-test-request "GET" "/v1/status")))))
    (should-not mnemo-test-messages)))

;;;; A server that misbehaves

(mnemo-test-case mnemo-test-faults-down faults
  "A daemon that may not be started is reported with the command that starts it, and so is a program that is missing."
  (let* ((mnemo-socket (mnemo-test-place 'no_socket)) (mnemo-autostart nil))
    (let ((err (mnemo-test-failure "/v1/status")))
      (should (string-search (concat "no daemon listens on " mnemo-socket) (cdr err)))
      (should (string-suffix-p "start it with: mnemo up" (cdr err))))
    (setq mnemo-autostart t)
    (let ((process-environment (cons "MNEMO_AUTOSTART=off" process-environment)))
      (should (string-suffix-p "start it with: mnemo up" (cdr (mnemo-test-failure "/v1/status")))))
    (let ((mnemo-command "no-such-program"))
      (should (string-search "there is no program no-such-program" (cdr (mnemo-test-failure "/v1/status")))))))

(mnemo-test-case mnemo-test-faults-start faults
  "Requests at the same time share one start, and its error."
  (let ((mnemo-socket (mnemo-test-place 'no_socket)) (mnemo-command (mnemo-test-place 'broken)) errors)
    (dotimes (_ 3)
      (mnemo-request "GET" "/v1/status" nil (lambda (err _) (push (alist-get 'message err) errors))))
    (mnemo-test-wait (= 3 (length errors)))
    (dolist (each errors) (should (string-search "it is broken" each)))
    (with-temp-buffer
      (insert-file-contents (mnemo-test-place 'starts))
      (should (= 1 (count-lines (point-min) (point-max)))))))

(mnemo-test-case mnemo-test-faults-long-path faults
  "A socket path that is too long is reported."
  (let ((mnemo-socket (concat "/" (make-string 200 ?x))) (mnemo-autostart nil))
    (should (equal "unreachable" (car (mnemo-test-failure "/v1/status"))))))

(mnemo-test-case mnemo-test-faults-late faults
  "An answer that does not come in time is an error; a replaced request is dropped; a late answer takes no keys."
  (let (code)
    (mnemo-request "POST" "/v1/recall" '((query . "held")) (lambda (err _) (setq code (alist-get 'code err)))
                   :timeout 0.05)
    (should-not code)
    (mnemo-test-wait (equal code "timeout")))
  (let* ((mnemo-patience 0.02) (window (selected-window)) listed
         (xref-show-xrefs-function (lambda (fetcher _) (push (mapcar #'xref-item-summary (funcall fetcher)) listed))))
    (should-not (mnemo-test-choosing
                 (let ((mnemo-patience 1000) (unread-command-events '(?x))) ; a key ends the wait
                   (mnemo-recall "dropped"))
                 (mnemo-recall "late")))
    (mnemo-test-message "still waiting")
    (should-not listed)
    (mnemo-test-request "POST" "/v1/release" '((any . 1)))
    (mnemo-test-wait listed)
    (mnemo-test-choosing (mnemo-recall "at once"))
    (should (equal listed '(("The *late* answer. It has two lines."))))
    (should (eq window (selected-window)))))

(mnemo-test-case mnemo-test-faults-picker faults
  "An answer that comes at once is chosen from."
  (should (equal (mnemo-test-choosing (mnemo-recall "at once"))
                 '("Memories (default The *late* answer. It has two lines.): " "The *late* answer. It has two lines." "  0.82 c0ffee01 · 2025-12-01"))))

(mnemo-test-case mnemo-test-faults-refusal faults
  "An error of the daemon is shown with its message."
  (mnemo-ask "anything")
  (mnemo-test-message "`question` must not be empty – größer")
  (let ((err (car (mnemo-test-request "POST" "/v1/ask" '((question . ""))))))
    (should (equal '("bad_value" 400 "question")
                   (list (alist-get 'code err) (alist-get 'status err) (alist-get 'field err))))))

(mnemo-test-case mnemo-test-faults-repeat faults
  "A question is sent again if the connection ends, a new memory is not."
  (with-temp-buffer
    (mnemo-context "anything")
    (mnemo-test-message "inserted")
    (should (equal "<memory>\n" (buffer-string))))
  (mnemo-remember "anything")
  (mnemo-test-message "may or may not have been carried out"))

(mnemo-test-case mnemo-test-faults-large faults
  "Large answers arrive whole, in chunks or not."
  (dolist (path '("/v1/big" "/v1/chunked"))
    (let ((text (alist-get 'text (cadr (mnemo-test-request "GET" path)))))
      (should (= (length text) (* 8 100000)))
      (should (string-prefix-p "Größe 🚀 Größe" text))))
  (should (equal "interrupted" (car (mnemo-test-failure "/v1/cut"))))
  (should-not (car (mnemo-test-request "GET" "/v1/kept")))) ; although the connection stays open

(mnemo-test-case mnemo-test-faults-answers faults
  "Answers that are not as they should be are errors, and a fault of the store is shown."
  (should (equal "status" (car (mnemo-test-failure "/v1/nothing"))))
  (should (equal "malformed" (car (mnemo-test-failure "/v1/no-json"))))
  (should (equal "no_route" (car (mnemo-test-failure "/v1/nowhere"))))
  (should-not (car (mnemo-test-request "GET" "/v1/degraded")))
  (mnemo-test-message "the disk is full"))

(mnemo-test-case mnemo-test-faults-bytes faults
  "Bytes that are no answer differ from an answer that is not complete."
  (cl-loop for (bytes . wanted) in
           '(("SSH-2.0-OpenSSH\r\n\r\n" . malformed)
             ("HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n" . malformed)
             ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" . malformed)
             ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab" . nil)
             ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" . nil)
             ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r" . nil)
             ("HTTP/1.1 200 OK\r\n" . nil))
           do (with-temp-buffer (insert bytes) (should (equal wanted (mnemo--parse t)))))
  (with-temp-buffer
    (insert "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
            "2;x=y\r\nab\r\nA\r\n0123\r\n5678\r\n0\r\nTrailer: x\r\n\r\n")
    (should (equal "ab0123\r\n5678" (nth 2 (mnemo--parse t))))))

(mnemo-test-case mnemo-test-faults-text faults
  "A text with bytes that are not characters is refused."
  (should-error (mnemo-remember (string-to-multibyte "\xff")) :type 'user-error))

(mnemo-test-case mnemo-test-faults-socket faults
  "The socket is where the daemon listens."
  (let ((process-environment (list (concat "HOME=" (mnemo-test-place 'home))))
        (data (if (eq system-type 'darwin) "Library/Application Support/mnemo" ".local/share/mnemo")))
    (should (equal (mnemo-socket-path) (expand-file-name (concat data "/run/mnemo.sock") (mnemo-test-place 'home))))
    (setenv "XDG_RUNTIME_DIR" "/run/user/7")
    (should (equal (mnemo-socket-path) "/run/user/7/mnemo/mnemo.sock"))
    (setenv "MNEMO_DATA_DIR" "~/elsewhere")
    (should (equal (mnemo-socket-path) (expand-file-name "elsewhere/run/mnemo.sock" (mnemo-test-place 'home))))
    (setenv "MNEMO_SOCKET" "/run/m.sock")
    (should (equal (mnemo-socket-path) "/run/m.sock"))))

;;;; The page of the protocol

(mnemo-test-case mnemo-test-transcripts transcripts
  "Every example of the page is sent as it is there, and its answer read."
  (let ((exchanges (with-temp-buffer
                     (insert-file-contents (getenv "MNEMO_TRANSCRIPTS"))
                     (json-parse-buffer))))
    (should (> (length exchanges) 100))
    (cl-loop
     for exchange across exchanges
     for text = (gethash "text" exchange)
     for documented = (gethash "answer" exchange)
     for body = (gethash "body" exchange)
     for headers = (let (found) (maphash (lambda (k v) (push (cons k v) found)) (gethash "headers" exchange)) found)
     for (err value) = (mnemo-test-request (gethash "method" exchange) (gethash "path" exchange)
                                           (and (not (eq body :null)) body) headers)
     do (ert-info ((gethash "name" exchange))
          (cond ((>= (gethash "status" exchange) 400)
                 (should (equal (list (gethash "status" exchange) (gethash "code" (gethash "error" documented)))
                                (list (alist-get 'status err) (alist-get 'code err)))))
                ((eq documented :null) (should (equal value text)))
                (t (should-not err)
                   (should (equal value (json-parse-string text :object-type 'alist :array-type 'list
                                                           :null-object nil :false-object nil)))))))))

(ert-run-tests-batch-and-exit `(tag ,(intern (mnemo-test-place 'kind))))

;;; mnemo-test.el ends here
